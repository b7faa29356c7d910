/** A blocked event loop does not count as silence of the server. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { isLeaseholdError, type Lease, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { HOST_TIME } from '../support/timers.js';
import { caught } from '../testing/expect.js';
import { turns, VirtualTime } from '../testing/virtual-time.js';

const turn = setImmediate;

async function hold(locks: LockManager, count: number): Promise<Lease[]> {
  return Promise.all(Array.from({ length: count }, (_, at) => locks.mutex(`lock ${at}`).acquire({ ttl: '10m' })));
}

test('a_close_gives_all_leases_back_though_a_listener_works_for_longer_than_the_response_timeout', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const leases = await hold(locks, 3);
  leases[0]?.signal.addEventListener('abort', () => time.takes(2_300));
  assert.deepEqual(await locks.close(), { lost: 3, unreleased: 0 });
  for (const { name } of leases) assert.equal(server.expire(name), false, 'it is still held');
});

test('the_event_loop_turns_while_a_close_runs_the_listeners_of_many_leases', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const leases = await hold(locks, 300);
  for (const { signal } of leases) signal.addEventListener('abort', () => time.takes(5));
  let [last, longest, isOver] = [time.now, 0, false];
  const watch = (): void => {
    longest = Math.max(longest, time.now - last);
    last = time.now;
    if (!isOver) turn(watch);
  };
  turn(watch);
  assert.deepEqual(await locks.close(), { lost: 300, unreleased: 0 });
  await turns();
  isOver = true;
  assert.ok(time.now >= 1_500 && longest < 50, `no turn for ${longest} of ${time.now} ms`);
});

test('while_a_close_runs_listeners_waits_and_new_calls_are_refused_and_a_release_is_not', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [locks, other] = [new LockManager(server), new LockManager(server)];
  const taken = await other.mutex('taken').acquire();
  const leases = await hold(locks, 20);
  const last = leases.at(-1)!;
  for (const { signal } of leases) signal.addEventListener('abort', () => time.takes(5));
  const waiting = caught(locks.mutex('taken').acquire());
  const waitsHere = caught(locks.mutex(last.name).acquire());
  await turns();
  const closing = locks.close();
  await taken.release();
  assert.ok(last.isHeld, 'its turn has not come');
  assert.equal(await last.release(), 'released');
  for (const error of [await waiting, await waitsHere, await caught(locks.mutex('new').tryAcquire())]) {
    assert.ok(isLeaseholdError(error, 'closed'), String(error));
  }
  assert.deepEqual(await closing, { lost: 19, unreleased: 0 });
  assert.ok(await other.mutex('taken').tryAcquire());
});

/** A connection to a server in memory. After the first `answer()`, each reply waits for the next `answer()`. */
function held(): { locks: LockManager; answer: () => void } {
  const server = new MemoryServer();
  const link = (server as unknown as Record<symbol, () => { call(args: readonly string[]): Promise<{ reply?: unknown }> }>)[Symbol.for('leasehold.openLink')]!();
  let answers: (() => void)[] = [];
  let isHeld = false;
  const call = async (args: string[]): Promise<unknown> => {
    const { reply } = await link.call(args);
    if (isHeld) await new Promise<void>((resolve) => answers.push(resolve));
    if (reply === undefined) throw new Error('NOSCRIPT No matching script');
    return reply;
  };
  const answer = (): void => {
    isHeld = true;
    for (const give of answers.splice(0)) give();
  };
  return { locks: new LockManager({ call }), answer };
}

/** Blocks the event loop for `ms`. Then it fires the timers that are due, and reads what has arrived. */
async function block(time: VirtualTime, ms: number, read: () => void): Promise<void> {
  time.takes(ms);
  turn(read);
  await time.pass(1);
}

test('an_answer_that_came_while_the_event_loop_was_blocked_counts', async (t: TestContext) => {
  const time = new VirtualTime(t);
  const { locks, answer } = held();
  const [one, two, three] = await hold(locks, 3) as [Lease, Lease, Lease];
  answer();
  const calls = [one.verify(), two.extend('20m'), three.release(), locks.inspect('lock 1'), locks.mutex('free').tryAcquire(), locks.mutex('other').acquire({ wait: '1s' })];
  const results = Promise.allSettled(calls);
  await turns();
  await block(time, 5_000, answer);
  // A script that the server does not have is sent again.
  for (let round = 0; round < 5; round++) await block(time, 5_000, answer);
  const refused = (await results).filter(({ status }) => status === 'rejected');
  assert.deepEqual(refused.map((result) => String((result as PromiseRejectedResult).reason)), []);
});

test('a_server_that_stays_silent_after_that_is_unreachable', async (t) => {
  const time = new VirtualTime(t);
  const { locks, answer } = held();
  const [lease] = await hold(locks, 1) as [Lease];
  answer();
  const verified = caught(lease.verify());
  await turns();
  await block(time, 5_000, () => {});
  await time.until(verified);
  assert.ok(isLeaseholdError(await verified, 'unreachable'));
});

test('a_lease_that_ends_while_the_event_loop_is_blocked_is_told_before_anything_is_read', async (t) => {
  const time = new VirtualTime(t);
  const { locks, answer } = held();
  const lease = await locks.mutex('short').acquire({ ttl: '3s', renew: false });
  answer();
  let told = false;
  void lease.lost.then(() => (told = true));
  await block(time, 5_000, () => assert.ok(told, 'I/O came first'));
});

test('a_signal_that_is_read_after_the_event_loop_was_blocked_is_aborted_as_soon_as_the_lease_is_not_held', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const [first, second] = [await locks.mutex('a').acquire({ renew: false }), await locks.mutex('b').acquire({ renew: false })];
  let aborted = 0;
  first.signal.addEventListener('abort', () => aborted++);
  assert.ok(!first.signal.aborted);
  time.takes(30_000);
  assert.ok(!first.isHeld && first.signal.aborted && aborted === 1);
  assert.ok(isLeaseholdError(first.signal.reason, 'lost') && first.signal.reason.reason === 'expired');
  assert.ok(second.signal.aborted);
  assert.equal(await second.lost, 'expired');
});

test('a_lease_that_has_expired_before_the_close_is_told_so', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const [short, long] = [await locks.mutex('a').acquire({ renew: false }), await locks.mutex('b').acquire({ ttl: '5m', renew: false })];
  const told: string[] = [];
  locks.on('lost', ({ name, reason }) => told.push(`${name}: ${reason}`));
  time.takes(30_000);
  assert.deepEqual(await locks.close(), { lost: 1, unreleased: 0 });
  assert.deepEqual([await short.lost, await long.lost], ['expired', 'closed']);
  assert.deepEqual(told, ['a: expired']);
});

test('a_timer_that_is_late_lets_io_go_first_and_can_be_cleared_until_then', async (t) => {
  const time = new VirtualTime(t);
  const ran: string[] = [];
  HOST_TIME.setTimeout(() => ran.push('timer'), 100);
  const cleared = HOST_TIME.setTimeout(() => ran.push('cleared'), 100);
  await block(time, 5_000, () => {
    ran.push('I/O');
    HOST_TIME.clearTimeout(cleared);
  });
  assert.deepEqual(ran, ['I/O', 'timer']);
});
