/** Tests locks over five real servers, of which some are dead, slow, restarted empty or unreachable for a while. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Redis } from 'ioredis-6';

import { isLeaseholdError, type Lease, type LeaseholdError, LockManager, Owner, type QuorumOptions } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { FiveServers } from '../testing/five-servers.js';
import { RENEWED_SOON } from '../testing/generous.js';
import { VirtualTime } from '../testing/virtual-time.js';

const NAME = 'invoice:42';
const TTL = 30_000;

/** Five servers in memory with one clock, and a manager over a quorum of them. */
async function inMemory(options: QuorumOptions = {}): Promise<{ servers: readonly MemoryServer[]; locks: LockManager }> {
  const first = new MemoryServer();
  const servers = [first, ...[1, 2, 3, 4].map(() => new MemoryServer({ clock: first.clock }))];
  return { servers, locks: await LockManager.quorum(servers, { ttl: TTL, ...options }) };
}

/** Acquires until the error has this message. Servers that answer late are `not answered yet` at first. */
async function refusal(locks: LockManager, message: RegExp): Promise<LeaseholdError> {
  let error: unknown;
  await until(async () => message.test(String(error = await caught(locks.mutex(NAME).acquire({ wait: '1500ms' })))));
  assert.ok(isLeaseholdError(error), String(error));
  return error;
}

test('two_clients_exclude_each_other_and_fences_rise', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [one, two] = [await five.manager(), await five.manager()];
  const first = await one.mutex(NAME).acquire();
  assert.equal(await two.mutex(NAME).tryAcquire(), null);
  const busy = await refusal(two, /: .*[3-5] (?:of 5 )?busy/);
  assert.ok(isLeaseholdError(busy, 'busy') && busy.retryable && (busy.holderRemaining ?? 0) > 0, String(busy));
  assert.ok((busy.votes?.filter(({ answer }) => answer === 'busy').length ?? 0) >= 3, JSON.stringify(busy.votes));
  assert.ok(busy.votes?.every(({ server }, at) => server === `127.0.0.1:${five.servers[at]?.port}`));
  let granted: Lease | undefined;
  const waiting = two.mutex(NAME).acquire().then((lease) => (granted = lease));
  assert.ok(await first.verify());
  assert.equal(granted, undefined);
  assert.deepEqual((await two.query()).pending.map(({ name }) => name), [NAME]);
  assert.equal(await first.release(), 'released');
  const second = await waiting;
  assert.ok(second.fence > first.fence);
  assert.equal((await one.inspect(NAME)).holders.length, 1);
  const nested = second.nested();
  assert.equal(await nested.release(), 'still-held');
  await second.extend('10m');
  assert.ok(second.remaining > 400_000);
  assert.equal(await second.release(), 'released');
  assert.equal((await one.inspect(NAME)).holders.length, 0);
});

test('callers_of_one_client_take_turns_and_a_close_gives_back', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [one, two] = [await five.manager(), await five.manager()];
  let inside = 0;
  const fences: number[] = [];
  await Promise.all(Array.from({ length: 10 }, () => one.mutex(NAME).run(async ({ fence }) => {
    assert.equal(++inside, 1);
    fences.push(fence);
    await new Promise(setImmediate);
    inside--;
  })));
  assert.deepEqual(fences, [...fences].sort((a, b) => a - b));
  const lease = await one.mutex(NAME).acquire();
  await one.close();
  assert.ok(lease.signal.aborted);
  assert.equal(await lease.release(), 'released');
  assert.ok((await two.mutex(NAME).tryAcquire()) !== null);
  assert.ok(isLeaseholdError(await caught(one.mutex(NAME).acquire()), 'closed'));
});

test('a_dead_minority_is_done_without_at_the_start_and_later', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  await five.servers[0]?.kill();
  const locks = await five.manager();
  const lease = await locks.mutex(NAME).acquire();
  await five.servers[1]?.kill();
  assert.ok(lease.isHeld && (await lease.verify()), 'by the other three');
  assert.equal(await lease.release(), 'released');
  assert.equal(await (await locks.mutex(NAME).acquire()).release(), 'released');
});

test('a_lease_is_renewed_by_a_majority_and_lost_in_time_without_one', async (t) => {
  const time = new VirtualTime(t);
  const { servers, locks } = await inMemory();
  for (const server of servers.slice(0, 2)) server.stop();
  const lease = await locks.mutex(NAME).acquire();
  await time.pass(2 * TTL, 100);
  assert.ok(lease.isHeld);
  servers[2]?.stop();
  const took = await time.until(lease.lost, 10);
  assert.equal(await lease.lost, 'expired');
  assert.ok(took < TTL, `${took} ms`);
});

test('a_dead_majority_is_unreachable_with_each_cause', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  await locks.mutex(NAME).run(() => {});
  const dead = five.servers.slice(0, 3);
  await Promise.all(dead.map((server) => server.kill()));
  const error = await refusal(locks, /3(?: of 5)? unreachable/);
  assert.ok(isLeaseholdError(error, 'unreachable') && error.retryable, String(error));
  assert.match(error.message, /^lock `invoice:42`: no majority of the servers answered within [\d.]+ m?s: .*3(?: of 5)? unreachable \(127\.0\.0\.1:/);
  assert.deepEqual(error.votes?.slice(0, 3).map(({ answer }) => answer), ['unreachable', 'unreachable', 'unreachable']);
  assert.match(error.votes?.[0]?.problem ?? '', /ECONNREFUSED/);
  const atStart = await caught(five.manager());
  assert.ok(isLeaseholdError(atStart, 'unreachable'), String(atStart));
  assert.match(atStart.message, /3 of 5 unreachable \(127\.0\.0\.1:.*\), 2 agreed/);
  await Promise.all(dead.map((server) => server.restart()));
  assert.equal(await (await locks.mutex(NAME).acquire()).release(), 'released');
});

test('one_slow_server_slows_nobody_down', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  await (await locks.mutex(NAME).acquire()).release();
  five.servers[2]?.pause();
  // No call waits for the node timeout of this server, which is a minute.
  await (await locks.mutex(NAME).acquire()).release();
  five.servers[2]?.resume();
  await until(async () => (await five.run(2, 'GET', NAME)) === null);
});

test('a_minority_that_restarts_empty_changes_nothing_and_is_won_again', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [locks, other] = [await five.manager({ ttl: RENEWED_SOON }), await five.manager()];
  const lease = await locks.mutex(NAME).acquire();
  for (const server of five.servers.slice(0, 2)) {
    await server.restart();
    assert.equal(await other.mutex(NAME).tryAcquire(), null);
  }
  for (const at of [0, 1]) await until(async () => (await five.run(at, 'GET', NAME)) !== null);
  assert.ok(lease.isHeld && (await lease.verify()));
  assert.equal(await lease.release(), 'released');
});

test('a_renewal_wins_one_again_that_is_empty', async (t) => {
  const time = new VirtualTime(t);
  const { servers, locks } = await inMemory();
  const other = await LockManager.quorum(servers);
  const lease = await locks.mutex(NAME).acquire();
  for (const server of servers) {
    server.flush();
    assert.equal(await time.result(other.mutex(NAME).tryAcquire()), null);
    await time.pass(TTL, 100);
    assert.equal((await time.result(new LockManager(server).inspect(NAME))).holders.length, 1, 'it was not won again');
  }
  assert.ok(lease.isHeld && (await time.result(lease.verify())));
  assert.equal(await time.result(lease.release()), 'released');
});

test('a_partition_that_heals_lets_the_waiter_in', async (t) => {
  const time = new VirtualTime(t);
  const { servers, locks } = await inMemory({ nodeTimeout: 500 });
  for (const server of servers.slice(0, 3)) server.delay('1h');
  const timedOut = await time.result(caught(locks.mutex(NAME).acquire({ wait: '1s' })));
  assert.ok(isLeaseholdError(timedOut, 'unreachable'), String(timedOut));
  assert.match(timedOut.message, /3(?: of 5)? timed out/);
  const waiting = locks.mutex(NAME).acquire();
  await time.pass(5_000);
  for (const server of servers.slice(0, 3)) server.delay(0);
  const lease = await time.result(waiting);
  assert.equal(await time.result(lease.release()), 'released');
});

test('a_close_is_confirmed_by_a_majority_or_tells_what_each_server_said', async (t) => {
  const time = new VirtualTime(t);
  for (const silent of [2, 3]) {
    const { servers, locks } = await inMemory();
    // Each answer takes a moment, so no answer counts for a later command.
    for (const server of servers) server.delay(10);
    const lease = await time.result(locks.mutex(NAME).acquire());
    for (const server of servers.slice(0, silent)) server.delay('1h');
    const closed = locks.close();
    const outcome = await time.result(lease.release().catch((error: unknown) => error));
    await time.result(closed);
    if (silent === 2) {
      assert.equal(outcome, 'released');
    } else {
      assert.ok(isLeaseholdError(outcome, 'unreachable'), String(outcome));
      assert.match(outcome.message, /^lock `invoice:42`: no majority of the servers answered within [\d.]+ m?s: 3 of 5 unreachable \(.+, .+, .+\), 2 agreed$/);
    }
  }
});

test('a_client_whose_path_is_empty_is_one_by_address', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const clients = five.servers.slice(0, 3).map(({ port }) => new Redis({ port, host: '127.0.0.1', path: '' }));
  const locks = await five.manager({}, clients);
  assert.equal(await locks.mutex(NAME).run(() => 'done'), 'done');
});

test('an_operator_takes_it_on_all_servers', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [locks, operator] = [await five.manager(), await five.manager()];
  const lease = await locks.mutex(NAME).acquire();
  assert.equal(await operator.forceRelease(NAME), 1);
  assert.equal(await lease.verify(), false);
  const next = await operator.mutex(NAME).acquire();
  assert.ok(next.fence > lease.fence);
});

test('servers_that_are_even_in_number_too_few_or_the_same_are_refused', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [a, b, c, d] = five.clients() as [never, never, never, never];
  const [again] = five.clients() as [never];
  const listeners = (a as { listenerCount(name: string): number }).listenerCount('ready');
  const bad = [[], [a], [a, b], [a, b, c, d], [a, b, a], [a, b, again], [a, b, 'redis://127.0.0.1'], [a, b, null], 'abc', undefined, a, new Proxy([], { get: () => { throw new Error('no'); } })];
  for (const given of bad) {
    const error = await caught(LockManager.quorum(given as never));
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'servers', String(error));
  }
  // By another name, so that only the server itself can tell.
  const other = (port: number) => ({ call: async ([name = '', ...args]: string[]) => five.run(five.servers.findIndex((one) => one.port === port), name, ...args) });
  const twice = await caught(LockManager.quorum([a, b, other(five.servers[0]?.port ?? 0)]));
  assert.ok(isLeaseholdError(twice, 'invalid-option') && twice.field === 'servers', String(twice));
  assert.match(twice.message, /one server twice: 127\.0\.0\.1:\d+ and connection 3|connection 3 and 127\.0\.0\.1:\d+/);
  const silent = await caught(LockManager.quorum([a, b, c], { nodeTimeout: 5 }));
  assert.ok(isLeaseholdError(silent, 'invalid-option') && silent.field === 'nodeTimeout', String(silent));
  assert.ok(isLeaseholdError(await caught(Promise.resolve().then(() => new LockManager(a, { nodeTimeout: 100 } as never))), 'invalid-option'));
  assert.equal((a as { listenerCount(name: string): number }).listenerCount('ready'), listeners, 'no listener is left behind');
});

test('a_server_that_is_there_twice_has_one_vote_even_if_it_was_dead_at_the_start', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [a, b, c, d] = five.clients() as [Redis, Redis, Redis, Redis];
  const [twice, ...others] = five.servers;
  // By another name, and in another database, so that the two votes don't exclude each other.
  const again = new Redis({ port: twice?.port ?? 0, host: 'localhost', db: 3, retryStrategy: () => 20 });
  again.on('error', () => {});
  await twice?.kill();
  const locks = await five.manager({}, [a, again, b, c, d]);
  await twice?.restart();
  await Promise.all(others.slice(0, 2).map((server) => server.kill()));
  const error = await refusal(locks, /unsupported/);
  assert.ok(isLeaseholdError(error, 'unreachable') || isLeaseholdError(error, 'unsupported'), String(error));
});

test('several_names_are_one_lease_which_a_majority_holds_entirely_or_not_at_all', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [one, two] = [await five.manager(), await five.manager()];
  // In one slot of a cluster, so one server would take both with one script.
  const names = ['{account}:2', '{account}:1'];
  await Promise.all(five.servers.slice(0, 2).map((server) => server.kill()));
  const lease = await one.multi(names).acquire();
  assert.deepEqual([...lease.fences.keys()], names);
  assert.equal(Math.max(...lease.fences.values()), lease.fence);
  assert.equal(await two.mutex(names[1] ?? '').tryAcquire(), null);
  assert.equal(await two.multi(['{account}:0', '{account}:2']).tryAcquire(), null);
  const isFree = async (name: string): Promise<boolean> => (await Promise.all([2, 3, 4].map((at) => five.run(at, 'EXISTS', name)))).every((count) => count === 0);
  await until(() => isFree('{account}:0'));
  assert.ok(lease.isHeld && await lease.verify());
  await lease.extend('10m');
  assert.ok(lease.remaining > 400_000);
  let granted: Lease | undefined;
  const waiting = two.multi([...names].reverse()).acquire().then((next) => (granted = next));
  await until(async () => (await two.query()).pending.length > 0);
  assert.equal(granted, undefined);
  assert.equal(await lease.release(), 'released');
  const next = await waiting;
  assert.ok(next.fence > lease.fence);
  for (const at of [2, 3]) await five.run(at, 'DEL', '{account}:1');
  assert.equal(await next.extend('1s').then(() => 'extended', (error) => error.code), 'lost');
  assert.ok(next.signal.aborted && !next.isHeld);
  await until(() => isFree('{account}:2'));
  const error = await caught(one.multi(names, { oneScript: true }).acquire());
  assert.ok(isLeaseholdError(error, 'unsupported'), String(error));
});

test('readers_hold_it_together_and_a_writer_has_its_turn', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [one, two] = [await five.manager(), await five.manager()];
  const three = await five.manager();
  const [lock, other] = [one.readWrite(NAME), two.readWrite(NAME)];
  const readers = await Promise.all([lock.read().acquire(), lock.read().acquire(), other.read().acquire()]);
  assert.ok((await Promise.all(readers.map((lease) => lease.verify()))).every(Boolean));
  // A release needs a majority. So each server has both clients before one of them dies.
  for (const at of [0, 1, 2, 3, 4]) await until(async () => (await five.run(at, 'ZCARD', `leasehold:{${NAME}}:readers`)) === 2);
  assert.equal(await other.write().tryAcquire(), null);
  const { holders } = await one.inspect(NAME);
  assert.deepEqual(holders.map(({ mode }) => mode), ['shared', 'shared'], 'each client is listed once');
  const waiting = other.write().acquire();
  await until(async () => (await one.inspect(NAME)).waiters.length > 0);
  await five.servers[4]?.kill();
  assert.equal(await three.readWrite(NAME).read().tryAcquire(), null, 'a reader does not pass a writer that waits');
  assert.deepEqual(await Promise.all(readers.map((lease) => lease.release())), ['released', 'released', 'released']);
  const writer = await waiting;
  assert.ok(readers.every(({ fence }) => fence < writer.fence));
  assert.equal(await lock.read().tryAcquire(), null);
  const late = lock.read().acquire();
  await writer.release();
  const reader = await late;
  assert.ok(reader.fence > writer.fence);
  assert.ok(isLeaseholdError(await caught(reader.upgrade()), 'unsupported'));
  await reader.release();
});

test('readers_and_several_names_are_renewed', async (t) => {
  const time = new VirtualTime(t);
  const { servers, locks } = await inMemory();
  servers[4]?.stop();
  const leases = [await locks.readWrite(NAME).read().acquire(), await locks.readWrite(NAME).read().acquire(), await locks.multi(['{account}:2', '{account}:1']).acquire()];
  await time.pass(2 * TTL, 100);
  assert.ok(leases.every(({ isHeld }) => isHeld));
});

test('other_kinds_are_refused_at_once', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  const others = [locks.reentrant(NAME, new Owner()), locks.semaphore(NAME, { limit: 2 })];
  for (const lock of others) {
    const error = await caught(lock.acquire());
    assert.ok(isLeaseholdError(error, 'unsupported') && !error.retryable, String(error));
    assert.match(error.message, /no semaphores, reentrant locks, onces and elections/);
  }
  const lease = await locks.mutex(NAME).acquire();
  assert.ok(isLeaseholdError(await caught(lease.downgrade()), 'unsupported'));
  assert.ok(lease.isHeld);
});

test('what_is_misconfigured_is_told_from_busy_and_unreachable', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  for (const at of [0, 1, 2]) await five.run(at, 'RPUSH', NAME, 'a list');
  const error = await caught(locks.mutex(NAME).acquire());
  assert.ok(isLeaseholdError(error, 'wrong-kind') && !error.retryable, String(error));
  assert.match(error.message, /3 of 5 wrong-kind/);
  for (const at of [0, 1, 2]) await five.run(at, 'CONFIG', 'SET', 'requirepass', 'secret');
  const locked = await caught(five.manager());
  assert.ok(isLeaseholdError(locked, 'auth') && !locked.retryable, String(locked));
  assert.match(locked.message, /NOAUTH.*3 of 5 auth \(127/);
});
