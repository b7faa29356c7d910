/** The drop-in for redis-semaphore, alone and beside the real library. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { Cluster, Redis } from 'ioredis-6';
import * as original from 'redis-semaphore';

import { isLeaseholdError, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { FiveServers } from '../testing/five-servers.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS_LOCK as GENEROUS, GENEROUS_QUORUM } from '../testing/generous.js';
import { BOUNDS } from '../support/options.generated.js';
import { startCluster } from '../testing/topologies.js';
import { VirtualTime } from '../testing/virtual-time.js';
import { answers, type Client } from './managers.js';
import * as dropIn from './redis-semaphore.js';
import { LostLockError, MultiSemaphore, Mutex, RedlockMultiSemaphore, RedlockMutex, RedlockSemaphore, Semaphore, TimeoutError } from './redis-semaphore.js';

/** Both libraries are used by the same code, so the drop-in's types suit both. */
const LIBRARIES = { original: original as unknown as typeof dropIn, dropIn };
const PAIRS = [['original', 'dropIn'], ['dropIn', 'original'], ['dropIn', 'dropIn']] as const;
/** No process uses redis-semaphore any more. */
const ALONE = { ...GENEROUS, mixedFleet: false };
/** The lock is refreshed so often that a loss is reported soon. */
const OFTEN = { ...GENEROUS, refreshInterval: 20 };

const { responseTimeout, nodeTimeout } = GENEROUS_QUORUM;
Object.assign(answers, { responseTimeout, nodeTimeout });

const fleet = await Fleet.start();

/** ioredis 5 and 6 have different types for the same client. */
function clientOf(client: Redis | MemoryServer = fleet.client()): Client {
  return client as unknown as Client;
}

/** Whether the server says that the mutex or the semaphore `a` is held. */
async function isHeldOn(server: MemoryServer, kind: 'mutex' | 'semaphore:leasehold' = 'mutex'): Promise<boolean> {
  const watcher = new LockManager(server);
  const { holders } = await watcher.inspect(`${kind}:a`);
  await watcher.close();
  return holders.length > 0;
}

/** Collects the rejections that nobody handles, as the test runner would fail the test for them. */
function unhandled(t: TestContext): unknown[] {
  const seen: unknown[] = [];
  const others = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', (error) => seen.push(error));
  t.after(() => {
    process.removeAllListeners('unhandledRejection');
    for (const listener of others) process.on('unhandledRejection', listener);
  });
  return seen;
}

test('a_mutex_is_acquired_and_released_and_may_be_used_again', async () => {
  const name = unique();
  const mutex = new Mutex(clientOf(), name, GENEROUS);
  assert.match(mutex.identifier, /^[0-9a-f-]{36}$/);
  for (let i = 0; i < 3; i++) {
    assert.equal(mutex.isAcquired, false);
    await mutex.acquire();
    assert.equal(mutex.isAcquired, true);
    assert.ok(await fleet.isThere(`mutex:${name}`));
    await mutex.release();
    assert.ok(!(await fleet.isThere(`mutex:${name}`)));
  }
  await mutex.release();
});

for (const [one, other] of PAIRS) {
  test(`a_mutex_of_${one}_excludes_one_of_${other}`, async () => {
    const name = unique();
    const holder = new LIBRARIES[one].Mutex(clientOf(), name, GENEROUS);
    const [waiter, impatient] = [{}, { acquireTimeout: 60 }].map((short) => new LIBRARIES[other].Mutex(clientOf(), name, { ...GENEROUS, ...short })) as [Mutex, Mutex];
    await holder.acquire();
    assert.equal(await impatient.tryAcquire(), false);
    const error = await caught(impatient.acquire());
    assert.ok(error instanceof LIBRARIES[other].TimeoutError);
    assert.equal(error.message, `Acquire mutex mutex:${name} timeout`);
    await holder.release();
    await waiter.acquire();
    await waiter.release();
  });

  test(`mutexes_of_${one}_and_${other}_take_turns_and_lose_no_increment`, async () => {
    const name = unique();
    let value = 0;
    const work = async (library: typeof dropIn): Promise<void> => {
      const mutex = new library.Mutex(clientOf(), name, GENEROUS);
      for (let i = 0; i < 20; i++) {
        await mutex.acquire();
        const read = value;
        await fleet.redis.ping();
        value = read + 1;
        await mutex.release();
      }
    };
    await Promise.all([work(LIBRARIES[one]), work(LIBRARIES[other])]);
    assert.equal(value, 40);
  });
}

test('a_mutex_is_refreshed_until_it_is_stopped', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const mutex = new Mutex(clientOf(server), 'a', { lockTimeout: 1_000 });
  await mutex.acquire();
  for (let i = 0; i < 30; i++) {
    await time.pass(100);
    assert.ok(mutex.isAcquired && (await isHeldOn(server)));
  }
  mutex.stopRefresh();
  await time.pass(1_000);
  assert.ok(!mutex.isAcquired && !(await isHeldOn(server)));
  await mutex.release();
});

test('a_refresh_interval_of_0_lets_the_lock_end', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const mutex = new Mutex(clientOf(server), 'a', { refreshInterval: 0, onLockLost: () => assert.fail('nobody is told') });
  await mutex.acquire();
  await time.pass(9_000);
  assert.ok(await isHeldOn(server));
  await time.pass(1_000);
  assert.ok(!(await isHeldOn(server)));
});

test('a_process_whose_key_is_gone_takes_the_lock_again_at_once', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  for (const held of [10, 400, 2_000]) {
    const order: string[] = [];
    const mutexOf = (name: string): Mutex => new Mutex(clientOf(server), 'a', { acquireAttemptsLimit: 1, onLockLost: () => void order.push(`${name} lost`) });
    const [first, second] = [mutexOf('first'), mutexOf('second')];
    await time.result(first.acquire());
    await time.pass(held);
    assert.equal(await time.result(second.tryAcquire()), false);
    await time.pass(10);
    server.flush();
    const again = second.acquire().then(() => order.push('second granted'));
    assert.equal(await time.until(again), 0, `after ${held} ms`);
    assert.deepEqual(order, ['first lost', 'second granted']);
    await second.release();
  }
});

test('a_refresh_survives_a_server_that_is_away_when_the_original_would_refresh', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const mutex = new Mutex(clientOf(server), 'a', { lockTimeout: 3_000 });
  await mutex.acquire();
  // The original refreshes once, after 2.4 s.
  await time.pass(2_200);
  server.stop();
  await time.pass(1_400);
  server.start();
  await time.pass(1_400);
  assert.ok(mutex.isAcquired && (await isHeldOn(server)));
  await mutex.release();
  assert.ok(!(await isHeldOn(server)));
});

test('a_loss_calls_on_lock_lost_once_with_the_lock_as_this', async () => {
  for (const loss of ['SET', 'DEL']) {
    const name = unique();
    const lost: [boolean, Error][] = [];
    const mutex = new Mutex(clientOf(), name, {
      ...OFTEN,
      onLockLost(error) {
        lost.push([this.isAcquired, error]);
      },
    });
    await mutex.acquire();
    await fleet.redis.call(loss, `mutex:${name}`, ...(loss === 'SET' ? ['another'] : []));
    await until(async () => lost.length > 0);
    assert.equal(lost[0]?.[0], false);
    assert.ok(lost[0]?.[1] instanceof LostLockError);
    assert.equal(lost[0]?.[1].message, `Lost mutex for key mutex:${name}`);
    await mutex.release();
    assert.equal(lost.length, 1);
    if (loss === 'SET') assert.equal(await fleet.redis.get(`mutex:${name}`), 'another');
  }
});

test('an_identifier_is_a_uuid_also_on_hosts_that_make_none', (t) => {
  const { randomUUID } = crypto;
  t.after(() => Object.defineProperty(crypto, 'randomUUID', { configurable: true, writable: true, value: randomUUID }));
  Object.defineProperty(crypto, 'randomUUID', { configurable: true, writable: true, value: undefined });
  const [one, other] = [1, 2].map(() => new Mutex(clientOf(new MemoryServer()), 'a').identifier);
  assert.match(one ?? '', /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
  assert.notEqual(one, other);
});

test('a_loss_that_nobody_handles_is_an_unhandled_rejection', async (t) => {
  const [seen, name] = [unhandled(t), unique()];
  const mutex = new Mutex(clientOf(), name, OFTEN);
  await mutex.acquire();
  await fleet.redis.del(`mutex:${name}`);
  await until(async () => seen.length > 0);
  assert.ok(seen[0] instanceof LostLockError);
});

test('a_released_or_stopped_lock_tells_nobody_of_a_loss', async (t) => {
  const [time, client] = [new VirtualTime(t), clientOf(new MemoryServer())];
  const options = { onLockLost: () => assert.fail('told') };
  const [released, stopped] = [new Mutex(client, 'a', options), new Mutex(client, 'b', options)];
  await released.acquire();
  await released.release();
  await stopped.acquire();
  stopped.stopRefresh();
  await time.pass(20_000, 100);
  assert.equal(stopped.isAcquired, false);
});

test('a_signal_ends_the_wait_with_its_reason', async () => {
  const name = unique();
  await new Mutex(clientOf(), name, GENEROUS).acquire();
  for (const options of [GENEROUS, ALONE]) {
    const controller = new AbortController();
    const waiting = caught(new Mutex(clientOf(), name, options).acquire(controller.signal));
    const mine = new Error('mine');
    controller.abort(mine);
    assert.equal(await waiting, mine);
    assert.equal(await caught(new Mutex(clientOf(), name, options).acquire(controller.signal)), mine);
  }
});

test('the_limit_of_attempts_and_the_timeout_end_the_wait', async (t) => {
  const [time, client] = [new VirtualTime(t), clientOf(new MemoryServer())];
  await new Mutex(client, 'a').acquire();
  for (const mixedFleet of [true, false]) {
    for (const [options, most] of [
      [{ acquireAttemptsLimit: 1 }, 10], [{ acquireAttemptsLimit: 3, retryInterval: 5 }, 15], [{ acquireTimeout: 30 }, 30],
      [{ acquireTimeout: 0 }, 0], [{ acquireAttemptsLimit: 0 }, 0],
    ] as const) {
      const trying = new Mutex(client, 'a', { mixedFleet, ...options }).tryAcquire();
      const took = await time.until(trying, 1);
      assert.equal(await trying, false);
      assert.ok(took <= most, `${JSON.stringify(options)}: ${took} ms`);
    }
  }
});

test('without_original_processes_waiters_stand_in_a_queue', async () => {
  const name = unique();
  // A waiter that polled would come too late.
  const options = { ...ALONE, retryInterval: 600_000 };
  const [holder, waiter] = [new Mutex(clientOf(), name, options), new Mutex(clientOf(), name, options)];
  await holder.acquire();
  const waiting = waiter.acquire();
  await fleet.waiting(`mutex:${name}`, 1);
  await holder.release();
  await waiting;
  await waiter.release();
});

test('a_short_wait_gets_a_free_lock_from_a_slow_server', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  server.delay('1s');
  const mutex = new Mutex(clientOf(server), 'a', { mixedFleet: false, acquireAttemptsLimit: 2, retryInterval: 5 });
  const acquiring = mutex.tryAcquire();
  await time.until(acquiring);
  assert.equal(await acquiring, true);
});

test('a_semaphore_is_refused_while_processes_may_use_the_original', () => {
  for (const make of [() => new Semaphore(clientOf(), 'a', 5), () => new MultiSemaphore(clientOf(), 'a', 5, 2), () => new Semaphore(clientOf(), 'a', 5, { mixedFleet: true })]) {
    assert.throws(make, (error) => isLeaseholdError(error, 'unsupported') && /semaphore:a.*mixedFleet: false/.test(error.message));
  }
});

test('a_semaphore_has_its_limit_and_a_multi_semaphore_takes_several_permits', async () => {
  const name = unique();
  const options = { ...ALONE, acquireTimeout: 50 };
  const one = new Semaphore(clientOf(), name, 3, options);
  const two = new MultiSemaphore(clientOf(), name, 3, 2, options);
  const three = new Semaphore(clientOf(), name, 3, options);
  assert.ok(one instanceof Mutex && two instanceof Semaphore);
  await one.acquire();
  await two.acquire();
  const error = await caught(three.acquire());
  assert.ok(error instanceof TimeoutError);
  assert.equal(error.message, `Acquire semaphore semaphore:${name} timeout`);
  await two.release();
  await three.acquire();
  await Promise.all([one.release(), three.release()]);
});

test('a_semaphore_is_refreshed_and_told_of_its_loss', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const lost: Error[] = [];
  const semaphore = new Semaphore(clientOf(server), 'a', 1, { mixedFleet: false, lockTimeout: 1_000, onLockLost: (error) => lost.push(error) });
  await semaphore.acquire();
  await time.pass(3_000);
  assert.ok(semaphore.isAcquired && (await isHeldOn(server, 'semaphore:leasehold')));
  server.flush();
  await time.pass(1_000);
  assert.deepEqual(lost.map(({ message }) => message), ['Lost semaphore for key semaphore:a']);
});

test('a_key_prefix_of_the_client_is_kept', async () => {
  const [client, name] = [new Redis(fleet.server.port, '127.0.0.1', { keyPrefix: 'shop:' }), unique()];
  const mutex = new Mutex(clientOf(client), name, GENEROUS);
  await mutex.acquire();
  assert.ok(await fleet.isThere(`shop:mutex:${name}`));
  assert.equal(await new original.Mutex(clientOf(client) as never, name, { acquireAttemptsLimit: 1 }).tryAcquire(), false);
  await mutex.release();
  client.disconnect();
});

/** Asserts that each pair of the libraries excludes each other over several servers. `clients` makes the clients of the servers. */
async function exclude(clients: () => Client[]): Promise<void> {
  for (const [one, other] of PAIRS) {
    const name = unique();
    const holder = new LIBRARIES[one].RedlockMutex(clients(), name, GENEROUS);
    await holder.acquire();
    assert.equal(await new LIBRARIES[other].RedlockMutex(clients(), name, { ...GENEROUS, acquireTimeout: 60 }).tryAcquire(), false);
    await holder.release();
    const next = new LIBRARIES[other].RedlockMutex(clients(), name, GENEROUS);
    await next.acquire();
    await next.release();
  }
}

test('a_redlock_mutex_is_a_quorum_that_excludes_the_original', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const clients = (): Client[] => five.clients().slice(0, 3).map((client) => clientOf(client));
  await exclude(clients);
  const mutex = new RedlockMutex(clients(), 'a', GENEROUS);
  await mutex.acquire();
  await mutex.release();
  await five.servers[0]?.kill();
  await mutex.acquire();
  await mutex.release();
});

test('a_redlock_mutex_without_a_majority_is_not_free_in_time', async (t) => {
  const [time, first] = [new VirtualTime(t), new MemoryServer()];
  const servers = [first, new MemoryServer({ clock: first.clock }), new MemoryServer({ clock: first.clock })];
  const mutex = new RedlockMutex(servers.map(clientOf), 'b', { acquireTimeout: 300 });
  await mutex.acquire();
  await mutex.release();
  for (const server of servers.slice(1)) server.stop();
  const acquiring = caught(mutex.acquire());
  await time.until(acquiring);
  const error = await acquiring;
  assert.ok(error instanceof TimeoutError && error.message === 'Acquire redlock-mutex mutex:b timeout', String(error));
});

test('a_redlock_mutex_takes_several_clusters_and_excludes_the_original', async (t) => {
  const nodes = [await startCluster(t), await startCluster(t), await startCluster(t)] as const;
  await exclude(() => nodes.map(([{ port }]) => {
    const cluster = new Cluster([{ host: '127.0.0.1', port }]);
    cluster.on('error', () => {});
    t.after(() => cluster.disconnect());
    return cluster as unknown as Client;
  }));
});

test('a_server_that_is_down_rejects_the_acquire_of_a_mutex', async () => {
  const client = new Redis({ port: 1, host: '127.0.0.1', maxRetriesPerRequest: 0, retryStrategy: () => null });
  client.on('error', () => {});
  assert.ok(isLeaseholdError(await caught(new Mutex(clientOf(client), 'a').acquire()), 'unreachable'));
});

test('what_the_engine_can_not_do_is_refused_by_name_at_the_start', () => {
  const client = clientOf();
  const refused: [() => unknown, string, string?][] = [
    [() => new Mutex(null as never, 'a'), 'invalid-option', 'connection'],
    [() => new Mutex(client, ''), 'invalid-option', 'key'],
    [() => new Mutex(client, 7 as never), 'invalid-option', 'key'],
    [() => new Mutex(client, 'a', { identifier: 'mine' }), 'unsupported'],
    [() => new Mutex(client, 'a', { identifier: 'mine', acquiredExternally: true }), 'unsupported'],
    [() => new Mutex(client, 'a', { externallyAcquiredIdentifier: 'mine' }), 'unsupported'],
    [() => new Mutex(client, 'a', { lockTimeout: 9 }), 'invalid-option', 'lockTimeout'],
    [() => new Mutex(client, 'a', { lockTimeout: BOUNDS.ttl[1] + 1 }), 'invalid-option', 'lockTimeout'],
    [() => new Mutex(client, 'a', { retryInterval: '10' } as never), 'invalid-option', 'retryInterval'],
    [() => new Mutex(client, 'a', { acquireTimeout: -1 }), 'invalid-option', 'acquireTimeout'],
    [() => new Mutex(client, 'a', { timeout: 10 } as never), 'invalid-option', 'timeout'],
    [() => new Mutex(client, 'a', { onLockLost: 7 } as never), 'invalid-option', 'onLockLost'],
    [() => new Mutex(client, 'a', { mixedFleet: 'no' } as never), 'invalid-option', 'mixedFleet'],
    [() => new Semaphore(client, 'a', '5' as never, ALONE), 'invalid-option', 'limit'],
    [() => new MultiSemaphore(client, 'a', 5, undefined as never, ALONE), 'invalid-option', 'permits'],
    [() => new RedlockMutex(client as never, 'a'), 'invalid-option', 'clients'],
    [() => new RedlockMutex([], 'a'), 'invalid-option', 'clients'],
    [() => new RedlockMutex([client, clientOf()], 'a'), 'invalid-option', 'clients'],
    [() => new RedlockSemaphore([client], 'a', 5), 'unsupported'],
    [() => new RedlockMultiSemaphore([client], 'a', 5, 2), 'unsupported'],
  ];
  for (const [make, code, field] of refused) {
    assert.throws(make, (error) => isLeaseholdError(error) && error.code === code && (field === undefined || (error as { field?: string }).field === field), String(make));
  }
  new Mutex(client, 'a', { lockTimeout: undefined } as never);
  assert.match(new Mutex(client, 'a', { identifierSuffix: 'billing' }).identifier, /-billing$/);
});

test('the_exports_are_those_of_the_original', () => {
  assert.deepEqual(Object.keys(dropIn).sort(), Object.keys(original).filter((name) => name !== 'default' && name !== 'module.exports' && name !== '__esModule').sort());
  assert.deepEqual(dropIn.defaultTimeoutOptions, original.defaultTimeoutOptions);
});
