/** Tests a manager that lets running work finish before it closes: on virtual time, and on a real server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Closed, isLeaseholdError, LockManager, Owner } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { turns, VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();
const HOUR = 3_600_000;

async function assertClosed(...calls: Promise<unknown>[]): Promise<void> {
  for (const call of calls) {
    const error = await caught(call);
    assert.ok(isLeaseholdError(error, 'closed'), String(error));
  }
}

test('running_work_finishes_and_nothing_begins', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [locks, other] = [new LockManager(server), new LockManager(server)];
  const taken = await other.mutex('taken').acquire();
  const work = locks.mutex('invoice').run(async (lease) => {
    await time.pass(HOUR, 1_000);
    await lease.extend('2m');
    const nested = lease.nested();
    assert.ok(lease.isHeld && !lease.signal.aborted && await lease.verify());
    await nested.release();
    return 'done';
  });
  await turns();
  const waiting = [locks.mutex('invoice').acquire(), locks.mutex('taken').acquire({ wait: 'forever' })];
  await turns();
  let closed: Closed | undefined;
  const drain = locks.close({ drain: '2h' }).then((result) => (closed = result));
  await assertClosed(...waiting, locks.mutex('free').acquire(), locks.semaphore('free', { limit: 3 }).tryAcquire());
  assert.deepEqual((await other.inspect('taken')).waiters, []);
  assert.equal((await locks.inspect('invoice')).holders.length, 1, 'who holds it can be asked');
  assert.equal(closed, undefined);
  assert.equal(await work, 'done');
  assert.deepEqual(await drain, { lost: 0, unreleased: 0 });
  assert.ok(time.now < 2 * HOUR, 'it does not wait for longer than the work');
  assert.notEqual(await other.mutex('invoice').tryAcquire(), null);
  await assertClosed(locks.inspect('invoice'));
  await taken.release();
});

test('when_the_time_is_over_the_leases_are_lost_and_the_answer_counts_them', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const [one, both] = [await locks.mutex('a').acquire(), await locks.multi(['b', 'c']).acquire()];
  const { signal } = one;
  const drain = locks.close({ drain: '1m' });
  await time.pass(59_900, 100);
  assert.ok(one.isHeld && both.isHeld && !signal.aborted);
  assert.deepEqual(await time.result(drain), { lost: 2, unreleased: 0 });
  assert.equal(time.now, 60_000);
  assert.ok(signal.aborted && isLeaseholdError(signal.reason, 'closed') && !both.isHeld);
  assert.equal(await one.lost, 'closed');
  assert.deepEqual(await locks.close(), { lost: 2, unreleased: 0 }, 'the same answer');
  for (const name of ['a', 'b', 'c']) assert.equal(server.expire(name), false, 'it is still held');
});

test('a_close_ends_a_drain_and_the_shortest_of_several_counts', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const lease = await locks.mutex('a').acquire();
  const [long, short] = [locks.close({ drain: HOUR }), locks.close({ drain: '1m' })];
  await time.pass(30_000, 1_000);
  assert.ok(lease.isHeld);
  for (const closed of [await locks.close(), await long, await short]) assert.deepEqual(closed, { lost: 1, unreleased: 0 });
  assert.equal(time.now, 30_000);

  const others = new LockManager(server);
  const held = await others.mutex('a').acquire();
  const drains = [others.close({ drain: HOUR }), others.close({ drain: '1m' })];
  await time.until(Promise.all(drains), 1_000);
  assert.equal(time.now, 90_000);
  assert.equal(await held.release(), 'released', 'the manager gave it back');
});

test('a_drain_without_leases_ends_at_once_and_so_does_one_without_time', async () => {
  const server = new MemoryServer();
  assert.deepEqual(await new LockManager(server).close({ drain: '1h' }), { lost: 0, unreleased: 0 });
  const locks = new LockManager(server);
  await locks.mutex('a').acquire();
  assert.deepEqual(await locks.close({ drain: 0 }), { lost: 1, unreleased: 0 });
});

test('the_owner_of_a_reentrant_lock_can_go_deeper', async () => {
  const [locks, owner] = [new LockManager(new MemoryServer()), new Owner()];
  const outer = await locks.reentrant('account', owner).acquire();
  const drain = locks.close({ drain: '1h' });
  await (await locks.reentrant('account', owner).acquire()).release();
  await assertClosed(locks.reentrant('account', new Owner()).acquire());
  await outer.release();
  assert.deepEqual(await drain, { lost: 0, unreleased: 0 });
});

test('work_under_a_stolen_lock_finishes_and_nothing_is_stolen_any_more', async () => {
  const locks = new LockManager(new MemoryServer());
  let finish = (): void => {};
  const work = locks.request('door', { steal: true }, () => new Promise<void>((resolve) => (finish = resolve)));
  await turns();
  const drain = locks.close({ drain: '1h' });
  await assertClosed(locks.request('door', { steal: true }, () => {}), locks.request('other', () => {}));
  finish();
  await work;
  assert.deepEqual(await drain, { lost: 0, unreleased: 0 });
});

test('a_bad_time_is_refused_and_the_manager_stays_open', async () => {
  const locks = new LockManager(new MemoryServer());
  for (const drain of ['31d', -1, NaN, 'soon', {}]) {
    const error = await caught(locks.close({ drain: drain as never }));
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'drain', String(error));
  }
  const error = await caught(locks.close({ drian: 1 } as never));
  assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'drian', String(error));
  await (await locks.mutex('a').acquire()).release();
  await locks.close({});
});

test('the_next_client_gets_the_lock_from_work_that_finishes_and_lingering_leases_go_back', async () => {
  const [locks, other, name, door] = [fleet.manager(), fleet.manager(), unique('invoice'), unique('door')];
  const lease = await locks.mutex(name).acquire();
  const lingering = locks.mutex(door, { linger: '60s' });
  // The client needs messages for that, and asks for them with the first lock.
  while (!(await fleet.isThere(door))) await (await lingering.acquire()).release();
  const next = other.mutex(name).acquire();
  await fleet.waiting(name, 1);
  const drain = locks.close({ drain: '10m' });
  await assertClosed(locks.mutex(name).acquire());
  while (await fleet.isThere(door)) await turns();
  assert.ok(await lease.verify());
  assert.equal(await lease.release(), 'released');
  assert.deepEqual(await drain, { lost: 0, unreleased: 0 });
  await (await next).release();
});
