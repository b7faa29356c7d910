/** The drop-in for redis-semaphore, alone and beside the real library. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { Cluster, Redis } from 'ioredis-6';
import * as original from 'redis-semaphore';

import { isLeaseholdError } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { FiveServers } from '../testing/five-servers.js';
import { Fleet, unique } from '../testing/fleet.js';
import { startCluster } from '../testing/topologies.js';
import type { Client } from './managers.js';
import * as dropIn from './redis-semaphore.js';
import { LostLockError, MultiSemaphore, Mutex, RedlockMultiSemaphore, RedlockMutex, RedlockSemaphore, Semaphore, TimeoutError } from './redis-semaphore.js';

/** Both libraries are used by the same code, so the drop-in's types suit both. */
const LIBRARIES = { original: original as unknown as typeof dropIn, dropIn };
const PAIRS = [['original', 'dropIn'], ['dropIn', 'original'], ['dropIn', 'dropIn']] as const;
/** No process uses redis-semaphore any more. */
const ALONE = { mixedFleet: false };

const fleet = await Fleet.start();

/** ioredis 5 and 6 have different types for the same client. */
function clientOf(client: Redis = fleet.client()): Client {
  return client as unknown as Client;
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
  const mutex = new Mutex(clientOf(), name);
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
    const holder = new LIBRARIES[one].Mutex(clientOf(), name);
    const waiter = new LIBRARIES[other].Mutex(clientOf(), name, { acquireTimeout: 60 });
    await holder.acquire();
    assert.equal(await waiter.tryAcquire(), false);
    const error = await caught(waiter.acquire());
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
      const mutex = new library.Mutex(clientOf(), name, { acquireTimeout: 30_000 });
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

test('a_mutex_is_refreshed_until_it_is_stopped', async () => {
  const name = unique();
  const mutex = new Mutex(clientOf(), name, { lockTimeout: 1_000 });
  await mutex.acquire();
  const began = performance.now();
  await until(async () => {
    assert.ok(mutex.isAcquired && (await fleet.isThere(`mutex:${name}`)));
    return performance.now() - began > 1_500;
  });
  mutex.stopRefresh();
  await until(async () => !(await fleet.isThere(`mutex:${name}`)));
  assert.equal(mutex.isAcquired, false);
  await mutex.release();
});

test('a_refresh_interval_of_0_lets_the_lock_end', async () => {
  const name = unique();
  const mutex = new Mutex(clientOf(), name, { lockTimeout: 200, refreshInterval: 0, onLockLost: () => assert.fail('nobody is told') });
  await mutex.acquire();
  await until(async () => !(await fleet.isThere(`mutex:${name}`)));
});

test('a_refresh_survives_a_server_that_is_away_when_the_original_would_refresh', async (t) => {
  const paused = await Fleet.start((close) => t.after(close));
  const mutex = new Mutex(clientOf(paused.client()), 'a', { lockTimeout: 3_000 });
  const began = performance.now();
  const passed = (ms: number): Promise<void> => until(async () => performance.now() - began > ms);
  await mutex.acquire();
  // The original refreshes once, after 2.4 s.
  await passed(2_200);
  paused.server.pause();
  await passed(3_600);
  paused.server.resume();
  await passed(4_000);
  assert.equal(mutex.isAcquired, true);
  await mutex.release();
  assert.equal(await paused.redis.exists('mutex:a'), 0);
});

test('a_loss_calls_on_lock_lost_once_with_the_lock_as_this', async () => {
  for (const loss of ['SET', 'DEL']) {
    const name = unique();
    const lost: [boolean, Error][] = [];
    const mutex = new Mutex(clientOf(), name, {
      lockTimeout: 300,
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

test('a_loss_that_nobody_handles_is_an_unhandled_rejection', async (t) => {
  const [seen, name] = [unhandled(t), unique()];
  const mutex = new Mutex(clientOf(), name, { lockTimeout: 300 });
  await mutex.acquire();
  await fleet.redis.del(`mutex:${name}`);
  await until(async () => seen.length > 0);
  assert.ok(seen[0] instanceof LostLockError);
});

test('a_released_or_stopped_lock_tells_nobody_of_a_loss', async () => {
  const [one, two] = [unique(), unique()];
  const options = { lockTimeout: 300, onLockLost: () => assert.fail('told') };
  const [released, stopped] = [new Mutex(clientOf(), one, options), new Mutex(clientOf(), two, options)];
  await released.acquire();
  await released.release();
  await stopped.acquire();
  stopped.stopRefresh();
  await until(async () => !stopped.isAcquired);
});

test('a_signal_ends_the_wait_with_its_reason', async () => {
  const name = unique();
  await new Mutex(clientOf(), name).acquire();
  for (const options of [{}, ALONE]) {
    const controller = new AbortController();
    const waiting = caught(new Mutex(clientOf(), name, options).acquire(controller.signal));
    const mine = new Error('mine');
    controller.abort(mine);
    assert.equal(await waiting, mine);
    assert.equal(await caught(new Mutex(clientOf(), name, options).acquire(controller.signal)), mine);
  }
});

test('the_limit_of_attempts_and_the_timeout_end_the_wait', async () => {
  const name = unique();
  await new Mutex(clientOf(), name).acquire();
  for (const fleet of [{}, ALONE]) {
    for (const options of [{ acquireAttemptsLimit: 1 }, { acquireAttemptsLimit: 3, retryInterval: 5 }, { acquireTimeout: 30 }, { acquireTimeout: 0 }, { acquireAttemptsLimit: 0 }]) {
      const began = performance.now();
      assert.equal(await new Mutex(clientOf(), name, { ...fleet, ...options }).tryAcquire(), false);
      assert.ok(performance.now() - began < 2_000);
    }
  }
});

test('without_original_processes_waiters_stand_in_a_queue', async () => {
  const name = unique();
  const options = { ...ALONE, retryInterval: 20_000, acquireTimeout: 30_000 };
  const [holder, waiter] = [new Mutex(clientOf(), name, options), new Mutex(clientOf(), name, options)];
  await holder.acquire();
  const waiting = waiter.acquire();
  await fleet.waiting(`mutex:${name}`, 1);
  await holder.release();
  await waiting;
  await waiter.release();
});

test('a_short_wait_gets_a_free_lock_from_a_slow_server', async (t) => {
  const slow = await Fleet.start((close) => t.after(close));
  const client = clientOf(slow.client());
  await client.ping();
  slow.server.pause();
  const mutex = new Mutex(client, 'a', { ...ALONE, acquireAttemptsLimit: 2, retryInterval: 5 });
  const acquiring = mutex.tryAcquire();
  const began = performance.now();
  await until(async () => performance.now() - began > 100);
  slow.server.resume();
  assert.equal(await acquiring, true);
  await mutex.release();
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

test('a_semaphore_is_refreshed_and_told_of_its_loss', async () => {
  const name = unique();
  const lost: Error[] = [];
  const semaphore = new Semaphore(clientOf(), name, 1, { ...ALONE, lockTimeout: 1_000, onLockLost: (error) => lost.push(error) });
  await semaphore.acquire();
  const began = performance.now();
  await until(async () => performance.now() - began > 1_500);
  assert.equal(semaphore.isAcquired, true);
  await fleet.redis.del(...(await fleet.redis.keys(`*${name}*`)));
  await until(async () => lost.length > 0);
  assert.equal(lost[0]?.message, `Lost semaphore for key semaphore:${name}`);
});

test('a_key_prefix_of_the_client_is_kept', async () => {
  const [client, name] = [new Redis(fleet.server.port, '127.0.0.1', { keyPrefix: 'shop:' }), unique()];
  const mutex = new Mutex(clientOf(client), name);
  await mutex.acquire();
  assert.ok(await fleet.isThere(`shop:mutex:${name}`));
  assert.equal(await new original.Mutex(clientOf(client) as never, name, { acquireAttemptsLimit: 1 }).tryAcquire(), false);
  await mutex.release();
  client.disconnect();
});

test('a_redlock_mutex_is_a_quorum_that_excludes_the_original', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const clients = (): Client[] => five.clients().slice(0, 3).map(clientOf);
  for (const [one, other] of PAIRS) {
    const name = unique();
    const [holder, waiter] = [new LIBRARIES[one].RedlockMutex(clients(), name), new LIBRARIES[other].RedlockMutex(clients(), name, { acquireTimeout: 60 })];
    await holder.acquire();
    assert.equal(await waiter.tryAcquire(), false);
    await holder.release();
    assert.equal(await waiter.tryAcquire(), true);
    await waiter.release();
  }
  const [mutex, unreachable] = [new RedlockMutex(clients(), 'a'), new RedlockMutex(clients(), 'b', { acquireTimeout: 300 })];
  await five.servers[0]?.kill();
  await mutex.acquire();
  await mutex.release();
  await five.servers[1]?.kill();
  const error = await caught(unreachable.acquire());
  assert.ok(error instanceof TimeoutError && error.message === 'Acquire redlock-mutex mutex:b timeout', String(error));
});

test('a_redlock_mutex_takes_several_clusters_and_excludes_the_original', async (t) => {
  const nodes = [await startCluster(t), await startCluster(t), await startCluster(t)] as const;
  const clients = (): Client[] => nodes.map(([{ port }]) => {
    const cluster = new Cluster([{ host: '127.0.0.1', port }]);
    cluster.on('error', () => {});
    t.after(() => cluster.disconnect());
    return cluster as unknown as Client;
  });
  for (const [one, other] of PAIRS) {
    const name = unique();
    const [holder, waiter] = [new LIBRARIES[one].RedlockMutex(clients(), name), new LIBRARIES[other].RedlockMutex(clients(), name, { acquireTimeout: 60 })];
    await holder.acquire();
    assert.equal(await waiter.tryAcquire(), false);
    await holder.release();
    const next = new LIBRARIES[other].RedlockMutex(clients(), name);
    await next.acquire();
    await next.release();
  }
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
    [() => new Mutex(client, 'a', { lockTimeout: 2_592_000_001 }), 'invalid-option', 'lockTimeout'],
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
