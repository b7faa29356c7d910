/** Tests locks over five real servers, of which some are dead, slow, restarted empty or unreachable for a while. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Redis } from 'ioredis-6';

import { isLeaseholdError, type Lease, LockManager, Owner } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { FiveServers } from '../testing/five-servers.js';

const NAME = 'invoice:42';
const TTL = 2_000;

test('two_clients_exclude_each_other_and_fences_rise', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [one, two] = [await five.manager(), await five.manager()];
  const first = await one.mutex(NAME).acquire();
  assert.equal(await two.mutex(NAME).tryAcquire(), null);
  const busy = await caught(two.mutex(NAME).acquire({ wait: '1s' }));
  assert.ok(isLeaseholdError(busy, 'busy') && busy.retryable && (busy.holderRemaining ?? 0) > 0, String(busy));
  assert.match(busy.message, /: .*[3-5] (?:of 5 )?busy/);
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
  await second.extend('5s');
  assert.ok(second.remaining > 4_000);
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
    await sleep(1);
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
  await sleep(TTL * 1.5);
  assert.ok(lease.isHeld && (await lease.verify()), 'renewed by the other three');
  assert.equal(await lease.release(), 'released');
  const next = await locks.mutex(NAME).acquire();
  await locks.close();
  assert.equal(await next.release(), 'released');
});

test('a_dead_majority_loses_the_lease_in_time_and_is_unreachable_with_each_cause', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  const lease = await locks.mutex(NAME).acquire();
  const granted = performance.now();
  const dead = five.servers.slice(0, 3);
  await Promise.all(dead.map((server) => server.kill()));
  assert.equal(await lease.lost, 'expired');
  assert.ok(performance.now() - granted < TTL + 1_000);
  const error = await caught(locks.mutex(NAME).acquire({ wait: '1500ms' }));
  assert.ok(isLeaseholdError(error, 'unreachable') && error.retryable, String(error));
  assert.match(error.message, /^lock `invoice:42`: no majority of the servers answered within [\d.]+ m?s: .*3(?: of 5)? unreachable \(127\.0\.0\.1:/);
  assert.deepEqual(error.votes?.slice(0, 3).map(({ answer }) => answer), ['unreachable', 'unreachable', 'unreachable']);
  assert.match(error.votes?.[0]?.problem ?? '', /ECONNREFUSED/);
  const atStart = await caught(five.manager());
  assert.ok(isLeaseholdError(atStart, 'unreachable'), String(atStart));
  assert.match(atStart.message, /3 of 5 unreachable \(127\.0\.0\.1:.*\), 2 agreed/);
  await Promise.all(dead.map((server) => server.restart()));
  assert.equal(await (await locks.mutex(NAME).acquire({ wait: '20s' })).release(), 'released');
});

test('one_slow_server_slows_nobody_down', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  await (await locks.mutex(NAME).acquire()).release();
  await five.run(2, 'CLIENT', 'PAUSE', '3000');
  const began = performance.now();
  await (await locks.mutex(NAME).acquire()).release();
  assert.ok(performance.now() - began < 2_000, `took ${performance.now() - began} ms`);
  await until(async () => (await five.run(2, 'GET', NAME)) === null);
});

test('one_that_restarts_empty_changes_nothing_and_is_won_again', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [locks, other] = [await five.manager(), await five.manager()];
  const lease = await locks.mutex(NAME).acquire();
  for (const [at, server] of five.servers.entries()) {
    await server.restart();
    assert.equal(await other.mutex(NAME).tryAcquire(), null);
    await until(async () => (await five.run(at, 'GET', NAME)) !== null);
  }
  assert.ok(lease.isHeld && (await lease.verify()));
  assert.equal(await lease.release(), 'released');
});

test('a_partition_that_heals_lets_the_waiter_in', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  for (const server of five.servers.slice(0, 3)) server.pause();
  const timedOut = await caught(locks.mutex(NAME).acquire({ wait: '1s' }));
  assert.ok(isLeaseholdError(timedOut, 'unreachable'), String(timedOut));
  assert.match(timedOut.message, /3(?: of 5)? timed out/);
  const waiting = locks.mutex(NAME).acquire();
  for (const server of five.servers.slice(0, 3)) server.resume();
  assert.equal(await (await waiting).release(), 'released');
});

test('a_close_that_no_majority_has_confirmed_tells_what_each_server_said', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  const lease = await locks.mutex(NAME).acquire();
  for (const server of five.servers.slice(0, 3)) server.pause();
  const closed = locks.close();
  const error = await caught(lease.release());
  await closed;
  assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
  assert.match(error.message, /^lock `invoice:42`: no majority of the servers answered within [\d.]+ m?s: 3 of 5 unreachable \(127.*\), 2 agreed$/);
});

test('a_client_whose_path_is_empty_is_one_by_address', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const clients = five.servers.slice(0, 3).map(({ port }) => new Redis({ port, host: '127.0.0.1', path: '' }));
  t.after(() => clients.forEach((client) => client.disconnect()));
  const locks = await LockManager.quorum(clients, { nodeTimeout: 500 });
  t.after(() => locks.close());
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

test('a_server_that_is_there_twice_has_one_vote_even_if_it_was_silent_at_the_start', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [a, b, c, d] = five.clients() as [Redis, Redis, Redis, Redis];
  const [twice, ...others] = five.servers;
  // By another name, and in another database, so that the two votes don't exclude each other.
  const again = new Redis(twice?.port ?? 0, 'localhost', { db: 3 });
  t.after(() => again.disconnect());
  twice?.pause();
  const locks = await LockManager.quorum([a, again, b, c, d], { nodeTimeout: 500, responseTimeout: 500 });
  t.after(() => locks.close());
  twice?.resume();
  await Promise.all(others.slice(0, 2).map((server) => server.kill()));
  const error = await caught(locks.mutex(NAME).acquire({ wait: '2s' }));
  assert.ok(isLeaseholdError(error, 'unreachable') || isLeaseholdError(error, 'unsupported'), String(error));
  assert.match(error.message, /unsupported/);
});

test('several_names_are_one_lease_which_a_majority_holds_entirely_or_not_at_all', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [one, two] = [await five.manager(), await five.manager()];
  // In one slot of a cluster, so one server would take both with one script.
  const names = ['{account}:2', '{account}:1'];
  await Promise.all(five.servers.slice(0, 2).map((server) => server.kill()));
  const lease = await one.multi(names, { ttl: TTL }).acquire();
  assert.deepEqual([...lease.fences.keys()], names);
  assert.equal(Math.max(...lease.fences.values()), lease.fence);
  assert.equal(await two.mutex(names[1] ?? '').tryAcquire(), null);
  assert.equal(await two.multi(['{account}:0', '{account}:2']).tryAcquire(), null);
  await until(async () => (await two.inspect('{account}:0')).holders.length === 0);
  await sleep(TTL * 1.5);
  assert.ok(lease.isHeld && await lease.verify(), 'both are renewed');
  await lease.extend('30s');
  assert.ok(lease.remaining > 20_000);
  let granted: Lease | undefined;
  const waiting = two.multi([...names].reverse(), { wait: '10s' }).acquire().then((next) => (granted = next));
  await until(async () => (await two.query()).pending.length > 0);
  assert.equal(granted, undefined);
  assert.equal(await lease.release(), 'released');
  const next = await waiting;
  assert.ok(next.fence > lease.fence);
  for (const at of [2, 3]) await five.run(at, 'DEL', '{account}:1');
  assert.equal(await next.extend('1s').then(() => 'extended', (error) => error.code), 'lost');
  assert.ok(next.signal.aborted && !next.isHeld);
  await until(async () => (await one.inspect('{account}:2')).holders.length === 0);
  const error = await caught(one.multi(names, { oneScript: true }).acquire());
  assert.ok(isLeaseholdError(error, 'unsupported'), String(error));
});

test('readers_hold_it_together_and_a_writer_has_its_turn', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const [one, two] = [await five.manager(), await five.manager()];
  const three = await five.manager();
  await five.servers[4]?.kill();
  const [lock, other] = [one.readWrite(NAME), two.readWrite(NAME)];
  const readers = await Promise.all([lock.read().acquire({ ttl: TTL }), lock.read().acquire({ ttl: TTL }), other.read().acquire({ ttl: TTL })]);
  assert.ok((await Promise.all(readers.map((lease) => lease.verify()))).every(Boolean));
  assert.equal(await other.write().tryAcquire(), null);
  const { holders } = await one.inspect(NAME);
  assert.deepEqual(holders.map(({ mode }) => mode), ['shared', 'shared'], 'each client is listed once');
  const waiting = other.write().acquire({ wait: '20s' });
  await until(async () => (await one.inspect(NAME)).waiters.length > 0);
  assert.equal(await three.readWrite(NAME).read().tryAcquire(), null, 'a reader does not pass a writer that waits');
  await sleep(TTL * 1.5);
  assert.ok(readers.every((lease) => lease.isHeld), 'all are renewed');
  assert.deepEqual(await Promise.all(readers.map((lease) => lease.release())), ['released', 'released', 'released']);
  const writer = await waiting;
  assert.ok(readers.every(({ fence }) => fence < writer.fence));
  assert.equal(await lock.read().tryAcquire(), null);
  const late = lock.read().acquire({ wait: '20s' });
  await writer.release();
  const reader = await late;
  assert.ok(reader.fence > writer.fence);
  assert.ok(isLeaseholdError(await caught(reader.upgrade()), 'unsupported'));
  await reader.release();
});

test('other_kinds_are_refused_at_once', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const locks = await five.manager();
  const others = [locks.reentrant(NAME, new Owner()), locks.semaphore(NAME, { limit: 2 })];
  for (const lock of others) {
    const error = await caught(lock.acquire());
    assert.ok(isLeaseholdError(error, 'unsupported') && !error.retryable, String(error));
    assert.match(error.message, /no semaphores and no reentrant locks/);
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
