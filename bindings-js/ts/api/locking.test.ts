/** Tests what users rely on, on a real server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asyncDispose } from '../support/host.js';
import { isLeaseholdError, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS } from '../testing/generous.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

test('a_lock_is_held_until_it_is_released', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire({ ttl: '4m' });
  assert.equal(lease.name, name);
  assert.equal(lease.mode, 'exclusive');
  assert.equal(lease.ttl, 240_000);
  assert.ok(lease.isHeld && lease.remaining > 120_000 && lease.remaining <= 240_000, `${lease.remaining}`);
  assert.ok(Number.isSafeInteger(lease.fence) && lease.fence > 1e15, `${lease.fence}`);
  assert.ok(await fleet.isThere(name));
  assert.equal(await lease.release(), 'released');
  assert.ok(!(await fleet.isThere(name)));
  assert.ok(!lease.isHeld && lease.remaining === 0);
  assert.ok(!lease.signal.aborted, 'a release is not a loss');
  assert.equal(await lease.release(), 'released', 'a second release has the same answer');
});

test('tasks_of_several_managers_never_hold_a_mutex_together_and_fences_rise', async () => {
  const name = unique('counter');
  let value = 0;
  const fences: number[] = [];
  const task = async (locks: ReturnType<Fleet['manager']>): Promise<void> => {
    for (let i = 0; i < 20; i++) {
      const lease = await locks.mutex(name).acquire();
      const seen = value;
      fences.push(lease.fence);
      await new Promise((resolve) => setImmediate(resolve));
      value = seen + 1;
      await lease.release();
    }
  };
  const managers = [fleet.manager(), fleet.manager(), fleet.manager()];
  await Promise.all(managers.flatMap((locks) => [1, 2, 3, 4].map(() => task(locks))));
  assert.equal(value, 240);
  assert.deepEqual(fences, [...fences].sort((a, b) => a - b));
  assert.equal(new Set(fences).size, 240);
});

test('local_callers_take_turns_in_their_order_without_a_turn_of_the_event_loop', async (t) => {
  // The clock stands still, because the client lets the event loop turn after some milliseconds of hand-overs.
  new VirtualTime(t);
  const locks = fleet.manager();
  const lock = locks.mutex(unique());
  const first = await lock.acquire();
  const order: number[] = [];
  const others = [1, 2, 3].map(async (number) => {
    const lease = await lock.acquire();
    order.push(number);
    await lease.release();
  });
  await until(async () => (await locks.query()).pending.length === 3);
  const released = first.release();
  let turned = false;
  setImmediate(() => (turned = true));
  await Promise.all([released, ...others.slice(0, 2)]);
  assert.deepEqual(order.slice(0, 2), [1, 2]);
  assert.ok(!turned, 'a hand-over waited for the event loop');
  await Promise.all(others);
});

test('tasks_that_do_nothing_but_lock_let_others_run', async () => {
  const lock = fleet.manager().mutex(unique());
  let [turns, cycles] = [0, 0];
  const count = (): unknown => ++turns < 5 && setImmediate(count);
  setImmediate(count);
  await Promise.all([1, 2, 3].map(async () => {
    for (; turns < 5 && cycles < 1_000_000; cycles++) await (await lock.acquire()).release();
  }));
  assert.equal(turns, 5, `${cycles} cycles`);
});

test('try_acquire_answers_null_when_somebody_holds_it', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await locks.mutex(name).tryAcquire();
  assert.ok(lease);
  assert.equal(await locks.mutex(name).tryAcquire(), null);
  assert.equal(await others.mutex(name).tryAcquire(), null);
  await lease.release();
  const again = await others.mutex(name).tryAcquire();
  assert.equal(await again?.release(), 'released');
});

test('a_wait_ends_busy_and_says_what_a_log_line_needs', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire({ ttl: '5m' });
  const error = await caught(others.mutex(name).acquire({ wait: '500ms' }));
  assert.ok(isLeaseholdError(error, 'busy'));
  assert.equal(error.lockName, name);
  assert.ok(error.retryable && error.waited >= 500, `${error.waited}`);
  assert.ok(error.holderRemaining !== undefined && error.holderRemaining > 120_000, `${error.holderRemaining}`);
  assert.match(error.message, new RegExp(`${name}.*busy after`));
  await lease.release();
});

test('a_waiter_is_granted_when_another_process_releases', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  const waiting = others.mutex(name).acquire();
  await fleet.waiting(name, 1);
  assert.deepEqual((await others.query()).pending.map(({ name }) => name), [name]);
  await lease.release();
  const granted = await waiting;
  assert.ok(granted.fence > lease.fence);
  await granted.release();
});

test('await_using_releases_at_the_end_of_the_block', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  assert.equal(typeof lease[asyncDispose], 'function');
  await lease[asyncDispose]();
  assert.ok(!(await fleet.isThere(name)));
  await lease[asyncDispose]();
});

test('a_lease_is_renewed_while_it_is_held_and_a_fixed_one_is_not', async (t) => {
  const [time, locks, first, second] = [new VirtualTime(t), new LockManager(new MemoryServer()), unique(), unique()];
  const renewed = await locks.mutex(first, { ttl: '30s' }).acquire();
  const fixed = await locks.mutex(second, { ttl: '30s', renew: false }).acquire();
  await time.until(fixed.lost, 100);
  assert.equal(await fixed.lost, 'expired');
  await time.pass(60_000, 100);
  assert.ok(renewed.isHeld && (await renewed.verify()));
  assert.ok(!fixed.isHeld && !(await fixed.verify()));
  assert.equal(await fixed.release(), 'already-expired');
  await renewed.release();
});

test('a_renewal_keeps_the_key_on_the_server', async (t) => {
  const [time, locks, name] = [new VirtualTime(t), fleet.manager(), unique()];
  const lease = await locks.mutex(name, { ttl: '5m' }).acquire();
  await fleet.redis.pexpire(name, 120_000);
  await time.pass(110_000, 1_000);
  await time.beside(until(async () => (await fleet.redis.pttl(name)) > 120_000));
  // The client learns of the renewal a moment later than the server.
  await time.beside(until(async () => lease.remaining > 200_000));
  await lease.release();
});

test('a_nested_hold_keeps_the_lock_until_the_last_is_given_back', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique('page')];
  const outer = await locks.readWrite(name).read().acquire();
  const writer = others.readWrite(name).write().acquire();
  await fleet.waiting(name, 1);
  const inner = outer.nested();
  assert.deepEqual([inner.mode, inner.holdCount, inner.fence], ['shared', 2, outer.fence]);
  assert.equal(await outer.release(), 'still-held');
  assert.equal(outer.holdCount, 1);
  assert.ok(inner.isHeld && !outer.isHeld);
  assert.throws(() => outer.nested(), { code: 'not-held', lockName: name });
  assert.ok(await inner.verify());
  assert.equal(await inner.release(), 'released');
  await (await writer).release();
});

test('readers_share_and_a_writer_excludes', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique('page')];
  const readers = await Promise.all([locks, others, others].map((manager) => manager.readWrite(name).read().acquire()));
  assert.equal(await locks.readWrite(name).write().tryAcquire(), null);
  const seen = await locks.inspect(name);
  assert.ok(seen.holders.length >= 2 && seen.holders.every(({ mode, foreign }) => mode === 'shared' && !foreign));
  await Promise.all(readers.map((reader) => reader.release()));
  const writer = await others.readWrite(name).write().acquire();
  assert.equal(await locks.readWrite(name).read().tryAcquire(), null);
  await writer.release();
});

test('a_writer_downgrades_and_a_sole_reader_upgrades_with_a_greater_fence', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique('page')];
  const lease = await locks.readWrite(name).write().acquire();
  const written = lease.fence;
  await lease.downgrade();
  assert.equal(lease.mode, 'shared');
  const reader = await others.readWrite(name).read().acquire();
  const error = await caught(lease.upgrade());
  assert.ok(isLeaseholdError(error, 'conflict') && error.lockName === name && !error.retryable);
  assert.ok(lease.isHeld && lease.mode === 'shared');
  await reader.release();
  await lease.upgrade();
  assert.equal(lease.mode, 'exclusive');
  assert.ok(lease.fence > written);
  await lease.release();
});

test('extend_makes_it_longer_here_and_on_the_server_and_never_shorter', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire({ ttl: '5m', renew: false });
  await lease.extend('20m');
  assert.ok(lease.remaining > 600_000 && (await fleet.redis.pttl(name)) > 600_000);
  await lease.extend(50);
  assert.ok(lease.remaining > 600_000);
  await lease.release();
});

test('shorten_makes_it_shorter_here_and_on_the_server', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire({ ttl: '20m' });
  await lease.shorten('5m');
  assert.ok(lease.isHeld && lease.remaining <= 300_000 && (await fleet.redis.pttl(name)) <= 330_000);
  await lease.extend('10m');
  assert.ok((await fleet.redis.pttl(name)) > 450_000);
  await lease.shorten(50);
  assert.equal(await lease.lost, 'expired');
  assert.ok(isLeaseholdError(await caught(lease.shorten(50)), 'not-held'));
  const [reader, other] = [await locks.readWrite(name).read().acquire(), await locks.readWrite(name).read().acquire()];
  assert.ok(isLeaseholdError(await caught(reader.shorten(50)), 'conflict'));
  assert.ok(isLeaseholdError(await caught(reader.shorten(-1)), 'invalid-option'));
  await Promise.all([reader.release(), other.release()]);
});

test('max_hold_ends_a_renewed_lease', async (t) => {
  const time = new VirtualTime(t);
  const lease = await new LockManager(new MemoryServer()).mutex(unique(), { ttl: '30s', maxHold: '40s' }).acquire();
  assert.ok((await time.until(lease.lost, 100)) <= 40_000);
  assert.equal(await lease.lost, 'max-hold');
  assert.equal((lease.signal.reason as { code: string }).code, 'lost');
});

test('inspect_tells_of_a_foreign_holder', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await fleet.redis.set(name, 'their own \u{1F511}', 'PX', 300_000);
  const { holders, waiters, lastFence } = await locks.inspect(name);
  assert.deepEqual([holders.length, waiters.length, lastFence], [1, 0, null]);
  assert.ok(holders[0]?.foreign && holders[0].token === 'their own \u{1F511}' && (holders[0].remaining ?? 0) > 120_000);
  await fleet.redis.del(name);
  assert.deepEqual(await locks.inspect(name), { holders: [], waiters: [], waiting: 0, lastFence: null, limit: null, per: null });
});

test('a_name_that_holds_something_else_is_left_as_it_is', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await fleet.redis.rpush(name, 'a list');
  const error = await caught(locks.mutex(name).acquire());
  assert.ok(isLeaseholdError(error, 'wrong-kind'), String(error));
  assert.equal(error.lockName, name);
  assert.match(String((error.cause as Error).message), /WRONGTYPE/);
  assert.equal(await fleet.redis.type(name), 'list');
});

test('the_prefix_stands_before_the_key_and_not_in_the_name', async () => {
  const [locks, name] = [fleet.manager({ prefix: 'billing:' }), unique()];
  const lease = await locks.mutex(name).acquire();
  assert.equal(lease.name, name);
  assert.ok(await fleet.isThere(`billing:${name}`));
  await lease.release();
});

test('odd_names_that_can_be_locks_are_locks', async () => {
  const locks = fleet.manager();
  for (const name of [' ', 'a b\r\n', 'ключ', '\0', '{a}', 'x{a}y{}', '%s %d', '\u{1F512}', '\uFEFFbom', 'n'.repeat(64 * 1024)]) {
    const lease = await locks.readWrite(name).write().acquire();
    await lease.downgrade();
    assert.equal((await locks.inspect(name)).holders.length, 1);
    assert.ok(await lease.verify(), name);
    assert.equal(await lease.release(), 'released');
  }
});

test('close_ends_waits_frees_leases_and_leaves_the_users_connection_open', async () => {
  const [others, ours, theirs] = [fleet.manager(), unique('ours'), unique('theirs')];
  const redis = fleet.client();
  const locks = new LockManager(redis, GENEROUS);
  const held = await others.mutex(theirs).acquire();
  const lease = await locks.mutex(ours).acquire();
  const waiting = caught(locks.mutex(theirs).acquire({ wait: 'forever' }));
  const { signal } = lease;
  await fleet.waiting(theirs, 1);
  await Promise.all([locks.close(), locks.close()]);
  assert.equal((await waiting as { code: string }).code, 'closed');
  assert.ok(!lease.isHeld && signal.aborted && isLeaseholdError(signal.reason, 'closed'));
  assert.ok(!(await fleet.isThere(ours)));
  assert.equal((await others.inspect(theirs)).waiters.length, 0);
  for (const late of [locks.mutex(ours).acquire(), locks.mutex(ours).tryAcquire(), locks.inspect(ours), lease.extend('1s'), lease.upgrade()]) {
    assert.ok(isLeaseholdError(await caught(late), 'closed'));
  }
  assert.equal(await lease.release(), 'released', 'the manager gave it back');
  assert.deepEqual(await locks.query(), { held: [], pending: [], lingering: [] });
  await locks[asyncDispose]();
  assert.equal(await redis.ping(), 'PONG');
  await held.release();
});

test('a_release_beside_and_after_close_tells_what_close_did', async () => {
  const [locks, name, other] = [fleet.manager(), unique(), unique()];
  const [lease, lost] = [await locks.mutex(name).acquire(), await locks.mutex(other).acquire()];
  const nested = lease.nested();
  await fleet.redis.del(other);
  assert.equal(await lost.verify(), false);
  const closing = locks.close();
  assert.equal(await nested.release(), 'released');
  assert.ok(!(await fleet.isThere(name)));
  await closing;
  assert.equal(await lease.release(), 'released');
  assert.equal(await lost.release(), 'already-expired');
});
