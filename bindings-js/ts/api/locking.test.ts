/** Tests what users rely on, on a real server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { asyncDispose } from '../support/host.js';
import { isLeaseholdError, LockManager } from '../index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';

const fleet = await Fleet.start();

test('a_lock_is_held_until_it_is_released', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire({ ttl: '5s' });
  assert.equal(lease.name, name);
  assert.equal(lease.mode, 'exclusive');
  assert.equal(lease.ttl, 5_000);
  assert.ok(lease.isHeld && lease.remaining > 4_000 && lease.remaining <= 5_000, `${lease.remaining}`);
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

test('local_callers_take_turns_in_their_order_without_a_turn_of_the_event_loop', async () => {
  const lock = fleet.manager().mutex(unique());
  const first = await lock.acquire();
  const order: number[] = [];
  const others = [1, 2, 3].map(async (number) => {
    const lease = await lock.acquire();
    order.push(number);
    await lease.release();
  });
  await sleep(50);
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
  let stop = false;
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  setTimeout(() => (stop = true), 300);
  await Promise.all([1, 2, 3].map(async () => {
    while (!stop) await (await lock.acquire()).release();
  }));
  clearInterval(timer);
  assert.ok(turns > 5, `${turns}`);
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
  const lease = await locks.mutex(name).acquire({ ttl: '20s' });
  const error = await caught(others.mutex(name).acquire({ wait: '500ms' }));
  assert.ok(isLeaseholdError(error, 'busy'));
  assert.equal(error.lockName, name);
  assert.ok(error.retryable && error.waited >= 500 && error.waited < 2_000, `${error.waited}`);
  assert.ok(error.holderRemaining !== undefined && error.holderRemaining > 15_000, `${error.holderRemaining}`);
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

test('a_lease_is_renewed_while_it_is_held_and_a_fixed_one_is_not', async () => {
  const [locks, first, second] = [fleet.manager(), unique(), unique()];
  const renewed = await locks.mutex(first, { ttl: 900 }).acquire();
  const fixed = await locks.mutex(second, { ttl: 900, renew: false }).acquire();
  assert.equal(await fixed.lost, 'expired');
  await sleep(1_000);
  assert.ok(renewed.isHeld && (await renewed.verify()));
  assert.ok(!fixed.isHeld && !(await fixed.verify()));
  assert.equal(await fixed.release(), 'already-expired');
  await renewed.release();
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
  const reader = await others.readWrite(name).read().acquire({ wait: '2s' });
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
  const lease = await locks.mutex(name).acquire({ ttl: '1s', renew: false });
  await lease.extend('20s');
  assert.ok(lease.remaining > 19_000 && (await fleet.redis.pttl(name)) > 19_000);
  await lease.extend(50);
  assert.ok(lease.remaining > 19_000);
  await lease.release();
});

test('shorten_makes_it_shorter_here_and_on_the_server', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire({ ttl: '20s' });
  await lease.shorten(300);
  assert.ok(lease.isHeld && lease.remaining <= 300 && (await fleet.redis.pttl(name)) <= 330);
  await lease.extend('10s');
  assert.ok((await fleet.redis.pttl(name)) > 9_000);
  await lease.shorten(50);
  assert.equal(await lease.lost, 'expired');
  assert.ok(isLeaseholdError(await caught(lease.shorten(50)), 'not-held'));
  const [reader, other] = [await locks.readWrite(name).read().acquire(), await locks.readWrite(name).read().acquire()];
  assert.ok(isLeaseholdError(await caught(reader.shorten(50)), 'conflict'));
  assert.ok(isLeaseholdError(await caught(reader.shorten(-1)), 'invalid-option'));
  await Promise.all([reader.release(), other.release()]);
});

test('max_hold_ends_a_renewed_lease', async () => {
  const lease = await fleet.manager().mutex(unique(), { ttl: 900, maxHold: 1_200 }).acquire();
  assert.equal(await lease.lost, 'max-hold');
  assert.equal((lease.signal.reason as { code: string }).code, 'lost');
});

test('inspect_tells_of_a_foreign_holder', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await fleet.redis.set(name, 'their own \u{1F511}', 'PX', 5_000);
  const { holders, waiters, lastFence } = await locks.inspect(name);
  assert.deepEqual([holders.length, waiters.length, lastFence], [1, 0, null]);
  assert.ok(holders[0]?.foreign && holders[0].token === 'their own \u{1F511}' && (holders[0].remaining ?? 0) > 4_000);
  await fleet.redis.del(name);
  assert.deepEqual(await locks.inspect(name), { holders: [], waiters: [], lastFence: null });
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
  const locks = new LockManager(redis);
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
