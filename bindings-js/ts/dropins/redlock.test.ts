/** The drop-in for node-redlock, alone and beside the real library. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { Cluster, Redis } from 'ioredis-6';

import { isLeaseholdError, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { FiveServers } from '../testing/five-servers.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS, GENEROUS_DURATION as LONG, GENEROUS_QUORUM } from '../testing/generous.js';
import { BOUNDS } from '../support/options.generated.js';
import { startCluster } from '../testing/topologies.js';
import { VirtualTime } from '../testing/virtual-time.js';
import { answers, type Client } from './managers.js';
import Redlock, { ExecutionError, type ExecutionStats, Lock, type RedlockAbortSignal, ResourceLockedError, type Settings } from './redlock.js';

// node-redlock's manifest hides its types from `nodenext`. Both classes are used by the same code, so the drop-in's types suit both.
const Original = (createRequire(import.meta.url)('redlock') as { default: typeof Redlock }).default;
const LIBRARIES = { original: Original, dropIn: Redlock };
const PAIRS = [['original', 'dropIn'], ['dropIn', 'original'], ['dropIn', 'dropIn']] as const;

const { responseTimeout, nodeTimeout } = GENEROUS_QUORUM;
Object.assign(answers, { responseTimeout, nodeTimeout });

const fleet = await Fleet.start();

function redlock(library: typeof Redlock = Redlock, settings: Partial<Settings> = {}): Redlock {
  return new library([clientOf(fleet.client())], settings);
}

/** ioredis 5 and 6 have different types for the same client. */
function clientOf(client: Redis | MemoryServer): Client {
  return client as unknown as Client;
}

async function votesOf(error: unknown): Promise<ExecutionStats[]> {
  assert.ok(error instanceof Error && error.name === 'ExecutionError', String(error));
  return Promise.all((error as ExecutionError).attempts);
}

test('a_lock_is_acquired_extended_and_released', async () => {
  const [locks, name] = [redlock(), unique()];
  const before = Date.now();
  const lock = await locks.acquire([name], LONG);
  assert.ok(lock.expiration > before + 0.9 * LONG && lock.expiration <= Date.now() + LONG, `${lock.expiration - before}`);
  assert.equal(lock.redlock, locks);
  assert.deepEqual(lock.resources, [name]);
  const [votes] = await Promise.all(lock.attempts);
  assert.deepEqual([votes?.membershipSize, votes?.quorumSize, votes?.votesFor.size, votes?.votesAgainst.size], [1, 1, 1, 0]);

  const longer = await lock.extend(2 * LONG);
  assert.equal(lock.expiration, 0);
  assert.ok(longer.expiration > before + 1.5 * LONG && (await fleet.redis.pttl(name)) > 1.5 * LONG);
  assert.equal(longer.value, lock.value);
  assert.equal((await longer.release()).attempts.length, 1);
  assert.ok(!(await fleet.isThere(name)));
});

test('an_extension_makes_the_server_keep_the_lock_for_the_duration', async (t) => {
  const time = new VirtualTime(t);
  for (const duration of [1_100, 3_000, 60_000, 86_400_000]) {
    const [name, server] = [unique(), new MemoryServer()];
    const [locks, next] = [new Redlock([clientOf(server)]), new LockManager(server)];
    const short = await locks.acquire([name], 1_000);
    const lock = await short.extend(duration);
    assert.ok(lock.expiration <= Date.now() + duration);
    time.takes(duration - 2);
    assert.equal(await next.mutex(name).tryAcquire(), null, `${duration}`);
    time.takes(3);
    assert.ok(await next.mutex(name).tryAcquire(), `${duration}`);
  }
});

test('the_value_is_the_fence_so_it_rises', async () => {
  const [locks, name] = [redlock(), unique()];
  const first = await locks.acquire([name], LONG);
  await first.release();
  const second = await locks.acquire([name], LONG);
  assert.ok(Number(second.value) > Number(first.value));
  await second.release();
});

for (const [one, other] of PAIRS) {
  test(`${one}_excludes_${other}_on_the_same_names`, async () => {
    const [holder, waiter] = [redlock(LIBRARIES[one]), redlock(LIBRARIES[other], { retryDelay: 5, retryJitter: 1, retryCount: 3 })];
    const [a, b, c] = [unique(), unique(), unique()];
    const lock = await holder.acquire([a, b], LONG);
    const votes = await votesOf(await caught(waiter.acquire([b, c], LONG)));
    assert.equal(votes.length, 4);
    for (const { votesAgainst } of votes) assert.deepEqual([...votesAgainst.values()].map(({ name }) => name), ['ResourceLockedError']);
    assert.ok(!(await fleet.isThere(c)), 'all names or none');
    await lock.release();
    await (await waiter.acquire([b, c], LONG)).release();
  });

  test(`${one}_and_${other}_get_the_lock_in_turns_and_lose_no_increment`, async () => {
    const name = unique();
    const counts = { one: 0, other: 0 };
    let value = 0;
    const work = async (locks: Redlock, who: keyof typeof counts): Promise<void> => {
      while (counts[who] < 20) {
        await locks.using([name], LONG, async () => {
          const read = value;
          await fleet.redis.ping();
          value = read + 1;
          counts[who]++;
        });
      }
    };
    const eager = { retryCount: -1, retryDelay: 5, retryJitter: 5 };
    await Promise.all([work(redlock(LIBRARIES[one], eager), 'one'), work(redlock(LIBRARIES[other], eager), 'other')]);
    assert.equal(value, 40);
  });
}

test('a_crashed_holder_of_either_library_delays_the_other_by_its_duration', async () => {
  for (const [one, other] of PAIRS) {
    const name = unique();
    await redlock(LIBRARIES[one]).acquire([name], LONG);
    const waiter = redlock(LIBRARIES[other], { retryCount: -1, retryDelay: 10, retryJitter: 0 });
    // The lock ends after this time.
    await fleet.redis.pexpire(name, 200);
    await (await waiter.acquire([name], LONG)).release();
  }
});

test('a_key_prefix_of_the_client_is_kept', async () => {
  const client = new Redis(fleet.server.port, '127.0.0.1', { keyPrefix: 'shop:' });
  const name = unique();
  const lock = await new Redlock([clientOf(client)]).acquire([name], LONG);
  assert.ok(await fleet.isThere(`shop:${name}`));
  const votes = await votesOf(await caught(new Original([clientOf(client)], { retryCount: 0 }).acquire([name], LONG)));
  assert.equal(votes.length, 1);
  await lock.release();
  client.disconnect();
});

test('using_extends_the_lock_while_the_routine_runs_and_releases_it', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const other = new LockManager(server);
  const result = await new Redlock([clientOf(server)]).using(['a'], 300, { automaticExtensionThreshold: 100 }, async (signal, context) => {
    assert.deepEqual([context.lock.resources, context.extensions], [['a'], 0]);
    for (let i = 0; i < 10; i++) {
      await time.pass(90);
      assert.equal(await other.mutex('a').tryAcquire(), null);
      assert.ok(context.lock.expiration > Date.now());
    }
    assert.deepEqual([signal.aborted, signal.error], [false, undefined]);
    return 'done';
  });
  assert.equal(result, 'done');
  assert.ok(await other.mutex('a').tryAcquire());
});

test('using_aborts_its_signal_with_an_error_when_the_lock_is_lost_and_rejects', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const other = new LockManager(server);
  let seen: Error | undefined;
  const error = await caught(new Redlock([clientOf(server)]).using(['a'], 30_000, async (signal) => {
    server.expire('a');
    await other.mutex('a').acquire();
    const lost = new Promise((resolve) => signal.addEventListener('abort', resolve));
    await time.until(lost, 100);
    seen = signal.error;
  }));
  assert.ok(seen instanceof ExecutionError && /lost: taken/.test(seen.message), String(seen));
  assert.ok(error instanceof ExecutionError);
  assert.equal((await other.inspect('a')).holders.length, 1);
});

test('using_passes_the_error_of_the_routine_on', async () => {
  const [locks, name] = [redlock(), unique()];
  const mine = new Error('mine');
  assert.equal(await caught(locks.using([name], LONG, () => Promise.reject(mine))), mine);
  assert.ok(!(await fleet.isThere(name)));
});

test('using_passes_the_error_of_the_routine_on_although_the_lock_was_lost', async (t) => {
  const [time, mine] = [new VirtualTime(t), new Error('mine')];
  const fails: ((signal: RedlockAbortSignal) => Error)[] = [() => mine, (signal) => signal.error as Error];
  for (const fail of fails) {
    const server = new MemoryServer();
    let thrown: unknown;
    const error = await caught(new Redlock([clientOf(server)]).using(['a'], 30_000, async (signal) => {
      await loseIn(time, server, signal);
      throw (thrown = fail(signal));
    }));
    assert.equal(error, thrown);
  }
});

test('using_rejects_with_the_loss_if_the_routine_only_reports_the_abort_of_its_signal', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const error = await caught(new Redlock([clientOf(server)]).using(['a'], 30_000, async (signal) => {
    await loseIn(time, server, signal);
    throw new DOMException('aborted', 'AbortError');
  }));
  assert.ok(error instanceof ExecutionError, String(error));
});

/** Deletes the lock, and waits until its holder notices. */
async function loseIn(time: VirtualTime, server: MemoryServer, signal: AbortSignal): Promise<void> {
  server.expire('a');
  await time.until(new Promise((resolve) => signal.addEventListener('abort', resolve)), 100);
}

test('every_vote_against_is_an_error_event_and_needs_no_listener', async () => {
  const [holder, waiter, name] = [redlock(), redlock(), unique()];
  await holder.acquire([name], LONG);
  const settings = { retryCount: 2, retryDelay: 1, retryJitter: 0 };
  assert.equal((await votesOf(await caught(waiter.acquire([name], LONG, settings)))).length, 3);
  const told: Error[] = [];
  waiter.on('error', (error: Error) => told.push(error));
  await caught(waiter.acquire([name], LONG, settings));
  assert.deepEqual(told.map((error) => error instanceof ResourceLockedError), [true, true, true]);
});

test('a_lock_that_has_ended_is_neither_released_nor_extended', async () => {
  const [locks, name] = [redlock(), unique()];
  const released = await locks.acquire([name], LONG);
  await released.release();
  await votesOf(await caught(released.release()));
  await votesOf(await caught(released.extend(LONG)));

  const taken = await locks.acquire([name], LONG);
  await fleet.redis.set(name, 'another');
  const [votes] = await votesOf(await caught(taken.extend(LONG)));
  assert.equal(votes?.votesAgainst.size, 1);
  await votesOf(await caught(taken.release()));
  assert.equal(await fleet.redis.get(name), 'another');
});

test('an_extension_that_shortens_ends_the_lock_when_it_says', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [locks, other] = [new Redlock([clientOf(server)]), new LockManager(server)];
  const isFree = async (name: string): Promise<boolean> => (await other.inspect(name)).holders.length === 0;
  for (const names of [['a'], ['b', 'c']]) {
    const lock = await (await locks.acquire(names, 60_000)).extend(200);
    assert.ok(lock.expiration <= Date.now() + 200);
    await time.pass(150);
    for (const name of names) assert.ok(!(await isFree(name)), name);
    await time.pass(60);
    for (const name of names) assert.ok(await isFree(name), name);
  }
});

test('a_second_instance_may_release_a_lock_of_the_first', async () => {
  const [one, two, name] = [redlock(), redlock(), unique()];
  await two.release(await one.acquire([name], LONG));
  assert.ok(!(await fleet.isThere(name)));
});

test('an_unreachable_server_costs_the_configured_tries_and_its_error_is_in_the_votes', async () => {
  const client = new Redis({ port: 1, host: '127.0.0.1', maxRetriesPerRequest: 0, retryStrategy: () => null });
  client.on('error', () => {});
  const locks = new Redlock([clientOf(client)], { retryCount: 2, retryDelay: 1, retryJitter: 0 });
  const votes = await votesOf(await caught(locks.acquire(['a'], LONG)));
  assert.equal(votes.length, 3);
  for (const { votesAgainst } of votes) assert.match([...votesAgainst.values()][0]?.message ?? '', /closed|ECONNREFUSED|ended/);
});

test('a_process_whose_keys_are_gone_takes_the_lock_again_at_once', async (t) => {
  const [time, first] = [new VirtualTime(t), new MemoryServer()];
  const { clock } = first;
  const cases = [['a', 'a'], ['ab', 'ab'], ['ab', 'bc'], ['a', 'ab'], ['ab', 'b']].map((names) => names.map((name) => [...name])) as [string[], string[]][];
  // Of a quorum, a later attempt takes it.
  for (const { servers, longest } of [{ servers: [first], longest: 0 }, { servers: [first, new MemoryServer({ clock }), new MemoryServer({ clock })], longest: 420 }]) {
    const locks = new Redlock(servers.map(clientOf), { retryDelay: 200, retryJitter: 0 });
    locks.on('error', () => {});
    for (const [names, wanted] of cases) for (const held of [10, 400, 2_000]) {
      const lost = await time.result(locks.acquire(names, 30_000));
      await time.pass(held);
      for (const server of servers) server.flush();
      const again = locks.acquire(wanted, 30_000);
      const took = await time.until(again);
      assert.ok(took <= longest, `${servers.length} servers, ${names}, then ${wanted}, after ${held} ms: ${took} ms`);
      await votesOf(await time.result(caught(lost.release())));
      await time.result((await again).release());
    }
  }
});

test('without_original_processes_waiters_stand_in_a_queue', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const settings = { mixedFleet: false, retryDelay: 10_000 };
  const [holder, waiter] = [new Redlock([clientOf(server)], settings), new Redlock([clientOf(server)], settings)];
  const lock = await holder.acquire(['a'], 30_000);
  const waiting = waiter.acquire(['a'], 5_000);
  await time.pass(100);
  await lock.release();
  assert.ok((await time.until(waiting)) <= 10, 'it did not sleep for a retryDelay');
  await (await waiting).release();

  await holder.acquire(['a'], 1_500);
  const late = waiter.acquire(['a'], 1_000);
  await time.until(late);
  assert.ok((await late).expiration > Date.now(), 'the wait was longer than the duration');
  await (await late).release();
  await holder.acquire(['a'], 30_000);
  const refused = caught(waiter.acquire(['a'], 5_000, { retryCount: 1, retryDelay: 50 }));
  await time.until(refused);
  const [votes, ...more] = await votesOf(await refused);
  assert.ok([...(votes?.votesAgainst.values() ?? [])][0] instanceof ResourceLockedError);
  assert.equal(more.length, 0);
});

test('without_original_processes_a_waiter_is_in_the_queue_of_a_real_server', async () => {
  const name = unique();
  // A waiter that polled would come too late.
  const settings = { mixedFleet: false, retryDelay: 600_000 };
  const [holder, waiter] = [redlock(Redlock, settings), redlock(Redlock, settings)];
  const lock = await holder.acquire([name], LONG);
  const waiting = waiter.acquire([name], LONG);
  await fleet.waiting(name, 1);
  await lock.release();
  await (await waiting).release();
});

test('a_cluster_alone_takes_names_of_any_slot_and_excludes_the_original', async (t) => {
  const [node] = await startCluster(t);
  const clusters = [0, 1].map(() => new Cluster([{ host: '127.0.0.1', port: node.port }]));
  t.after(() => clusters.forEach((cluster) => cluster.disconnect()));
  const [mine, theirs] = clusters as unknown as [Client, Client];
  const lock = await new Redlock([mine]).acquire(['a', 'b', 'c'], LONG);
  for (const name of ['a', 'b', 'c']) await votesOf(await caught(new Original([theirs], { retryCount: 0 }).acquire([name], LONG)));
  await lock.release();
  await (await new Original([theirs], { retryCount: 0 }).acquire(['{a}1', '{a}2'], LONG)).release();
});

test('several_clusters_are_a_quorum_that_excludes_the_original', async (t) => {
  const nodes = [await startCluster(t), await startCluster(t), await startCluster(t)] as const;
  const clients = (): Client[] => nodes.map(([{ port }]) => {
    const cluster = new Cluster([{ host: '127.0.0.1', port }]);
    cluster.on('error', () => {});
    t.after(() => cluster.disconnect());
    return cluster as unknown as Client;
  });
  const eager = { retryCount: 3, retryDelay: 5, retryJitter: 1 };
  for (const [one, other] of PAIRS) {
    const [holder, waiter] = [new LIBRARIES[one](clients(), eager), new LIBRARIES[other](clients(), eager)];
    // In the same slot, because the original's script has both names.
    const tag = unique();
    const names = [`{${tag}}:1`, `{${tag}}:2`];
    const lock = await holder.acquire(names, LONG);
    const votes = await votesOf(await caught(waiter.acquire(names.slice(1), LONG)));
    assert.ok(votes.every(({ membershipSize, quorumSize, votesAgainst }) => membershipSize === 3 && quorumSize === 2 && votesAgainst.size >= 2));
    const longer = await lock.extend(2 * LONG);
    await longer.release();
    await (await waiter.acquire(names, LONG)).release();
  }
  // One cluster is down. The drop-in takes names of any slot.
  await Promise.all(nodes[0].map(({ server }) => server.kill()));
  const locks = new Redlock(clients(), eager);
  const lock = await locks.acquire(['a', 'b', 'c'], LONG);
  await votesOf(await caught(new Redlock(clients(), eager).acquire(['b'], LONG)));
  await lock.release();
  assert.equal(await locks.using(['b'], LONG, async () => 'done'), 'done');
});

test('several_clients_are_a_quorum_that_excludes_the_original', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const clients = (): Client[] => five.clients().slice(0, 3).map(clientOf);
  const eager = { retryCount: 3, retryDelay: 5, retryJitter: 1 };
  for (const [one, other] of PAIRS) {
    const [holder, waiter] = [new LIBRARIES[one](clients(), eager), new LIBRARIES[other](clients(), eager)];
    const names = [unique(), unique()];
    const lock = await holder.acquire(names, LONG);
    const votes = await votesOf(await caught(waiter.acquire(names.slice(1), LONG)));
    assert.ok(votes.every(({ membershipSize, quorumSize, votesAgainst }) => membershipSize === 3 && quorumSize === 2 && votesAgainst.size >= 2));
    const longer = await lock.extend(2 * LONG);
    // A majority is enough for the calls. The other server follows.
    for (const at of [0, 1, 2]) for (const name of names) await until(async () => Number(await five.run(at, 'PTTL', name)) > 1.5 * LONG);
    await longer.release();
    await (await waiter.acquire(names, LONG)).release();
    for (const at of [0, 1, 2]) await until(async () => (await five.run(at, 'EXISTS', ...names)) === 0);
  }
});

test('in_a_quorum_both_libraries_get_the_lock_in_turns_and_lose_no_increment', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  // The original counts its own key as a vote against itself. So it can hold the lock on all servers without knowing it, until it gives up.
  const eager = { retryCount: 5, retryDelay: 10, retryJitter: 10 };
  let [value, done] = [0, 0];
  await Promise.all(([Original, Redlock, Redlock] as const).map(async (library) => {
    const locks = new library(five.clients().slice(0, 3).map(clientOf), eager);
    for (let turns = 0; turns < 4;) {
      const using = locks.using(['hot'], LONG, async () => {
        const read = value;
        await five.run(3, 'PING');
        value = read + 1;
        done++;
        turns++;
      });
      await using.catch(votesOf);
    }
  }));
  assert.deepEqual([value, done], [12, 12]);
});

test('a_quorum_takes_all_names_or_none', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const clients = five.clients().slice(0, 3).map(clientOf);
  const [one, two] = [new Redlock(clients), new Redlock(clients, { retryCount: 0 })];
  const lock = await one.acquire(['b'], LONG);
  await caught(two.acquire(['c', 'b', 'a'], LONG));
  // The last server of three may give a name back a moment later.
  for (const at of [0, 1, 2]) await until(async () => (await five.run(at, 'EXISTS', 'a', 'c')) === 0);
  await lock.release();
});

test('a_minority_that_is_down_is_done_without', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = new Redlock(five.clients().slice(0, 3).map(clientOf), { retryCount: 1, retryDelay: 1 });
  await (await locks.acquire(['a'], LONG)).release();
  await five.servers[2]?.kill();
  await (await locks.acquire(['a'], LONG)).release();
});

test('a_majority_that_is_down_is_told_by_server', async (t) => {
  const [time, first] = [new VirtualTime(t), new MemoryServer()];
  const { clock } = first;
  const servers = [first, new MemoryServer({ clock }), new MemoryServer({ clock })];
  const locks = new Redlock(servers.map(clientOf), { retryCount: 1, retryDelay: 1 });
  await (await locks.acquire(['a'], 5_000)).release();
  for (const server of servers.slice(1)) server.stop();
  const refused = caught(locks.acquire(['a'], 5_000));
  await time.until(refused);
  const votes = await votesOf(await refused);
  assert.equal(votes.length, 2);
  assert.ok(votes.every(({ votesAgainst }) => votesAgainst.size >= 2));
});

test('what_the_engine_can_not_do_is_refused_by_name_at_the_start', async () => {
  const client = clientOf(fleet.client());
  const refused: [() => unknown, string, string?][] = [
    [() => new Redlock([]), 'invalid-option', 'clients'],
    [() => new Redlock([client, clientOf(fleet.client())]), 'invalid-option', 'clients'],
    [() => new Redlock([{} as Client]), 'invalid-option', 'connection'],
    [() => new Redlock([7 as never]), 'invalid-option', 'connection'],
    [() => new Redlock([client], {}, { acquireScript: 'return 1' }), 'unsupported'],
    [() => new Redlock([client], { db: 1 }), 'invalid-option', 'db'],
    [() => new Redlock([client], { retryCont: 3 } as never), 'invalid-option', 'retryCont'],
    [() => new Redlock([client], { retryCount: '3' } as never), 'invalid-option', 'retryCount'],
    [() => new Redlock([client], { mixedFleet: 1 } as never), 'invalid-option', 'mixedFleet'],
  ];
  for (const [make, code, field] of refused) {
    assert.throws(make, (error) => isLeaseholdError(error) && error.code === code && (field === undefined || (error as { field?: string }).field === field), String(make));
  }
  new Redlock([client], { retryCount: undefined, db: undefined } as never, {});
  const locks = new Redlock([client]);
  const calls: [Promise<unknown>, string][] = [
    [locks.acquire(['a'], 1.5), 'duration'], [locks.acquire(['a'], NaN), 'duration'], [locks.acquire(['a'], 9), 'duration'],
    [locks.acquire(['a'], BOUNDS.ttl[1] + 1), 'duration'], [locks.acquire('a' as never, 1_000), 'resources'], [locks.acquire([], 1_000), 'names'],
    [locks.acquire([''], 1_000), 'name'], [locks.using(['a'], 550, async () => {}), 'duration'],
    [locks.using(['a'], 1_000, {}, undefined), 'routine'], [locks.acquire(['a'], 1_000, { retries: 1 } as never), 'retries'],
  ];
  for (const [call, field] of calls) {
    const error = await caught(call);
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === field, `${field}: ${String(error)}`);
  }
  const theirs = new Lock(locks, ['a'], 'a value', [], Date.now() + 5_000);
  assert.ok(isLeaseholdError(await caught(theirs.release()), 'unsupported'));
  assert.ok(isLeaseholdError(await caught(theirs.extend(1_000)), 'unsupported'));
});

test('the_database_of_the_client_may_be_named_and_no_other', async () => {
  const [client, name] = [fleet.client(), unique()];
  const locks = new Redlock([clientOf(client)], { db: 0 });
  await client.select(2);
  await caught(locks.acquire([name], LONG, { db: 0 })).then((error) => assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'db'));
  const other = new Redlock([clientOf(client)], { db: 2 });
  const lock = await other.acquire([name], LONG, { db: 2 });
  assert.ok(await client.exists(name) === 1 && !(await fleet.isThere(name)));
  await lock.release();
});

test('a_name_twice_is_one_name', async () => {
  const [locks, name] = [redlock(), unique()];
  await (await locks.acquire([name, name], LONG)).release();
});

test('all_locks_over_one_client_share_a_manager_and_no_second_connection', async () => {
  const client = fleet.client();
  const connections = async (): Promise<number> => (await fleet.redis.client('LIST') as string).trim().split('\n').length;
  await client.ping();
  const before = await connections();
  for (let i = 0; i < 10; i++) await (await new Redlock([clientOf(client)]).acquire([unique()], LONG)).release();
  assert.equal(await connections(), before);
  assert.deepEqual(await fleet.redis.keys('leasehold:client:*'), []);
});

test('a_lock_outlives_quit', async () => {
  const [locks, name] = [redlock(), unique()];
  await locks.acquire([name], LONG);
  await locks.quit();
  assert.ok(await fleet.isThere(name));
});

test('leasehold_itself_shares_the_locks', async () => {
  const [locks, name] = [redlock(), unique()];
  const native = new LockManager(fleet.client(), { ...GENEROUS, mixedFleet: true });
  const lock = await locks.acquire([name], LONG);
  assert.equal(await native.mutex(name).tryAcquire(), null);
  await lock.release();
  await (await native.mutex(name).acquire()).release();
  await native.close();
});
