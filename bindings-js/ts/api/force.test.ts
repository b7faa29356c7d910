/** An operator takes a lock from its holders. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type Lease, Owner } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

test('the_holder_is_told_that_it_is_revoked_and_the_next_in_line_is_granted_with_a_greater_fence', async (t) => {
  const own = await Fleet.start((close) => t.after(close));
  const time = new VirtualTime(t);
  const [holder, waiter, operator] = [own.manager(), own.manager(), own.manager()];
  const lease = await holder.mutex('door').acquire();
  const { signal } = lease;
  // The holder subscribes at its first renewal.
  await time.pass(110_000, 1_000);
  await until(async () => (await own.redis.pubsub('CHANNELS', 'leasehold:*')).length === 1);
  const waiting = waiter.mutex('door').acquire();
  await own.waiting('door', 1);
  assert.equal(await operator.forceRelease('door'), 1);
  assert.equal(await lease.lost, 'revoked');
  assert.ok(signal.aborted && isLeaseholdError(signal.reason, 'lost') && signal.reason.reason === 'revoked', String(signal.reason));
  assert.ok(!lease.isHeld);
  const next = await waiting;
  assert.ok(next.fence > lease.fence);
  assert.equal(await lease.release(), 'already-expired');
  assert.ok(await next.verify());
});

test('work_under_the_lock_is_interrupted', async () => {
  const [holder, operator] = [fleet.manager(), fleet.manager()];
  const name = unique('door');
  let held: Lease | undefined;
  const working = caught(holder.mutex(name).run((lease) => new Promise((_, reject) => {
    held = lease;
    lease.signal.addEventListener('abort', () => reject(lease.signal.reason));
  })));
  await until(async () => held !== undefined);
  assert.equal(await operator.forceRelease(name), 1);
  void held?.verify();
  const error = await working;
  // A holder that is subscribed is notified with `revoked`. Others find out with their next call or renewal.
  assert.ok(isLeaseholdError(error, 'lost') && ['revoked', 'gone'].includes(error.reason), String(error));
});

test('it_takes_every_kind_of_lock_and_counts_the_holders', async () => {
  const [one, two, operator] = [fleet.manager(), fleet.manager(), fleet.manager()];
  const name = unique('door');
  assert.equal(await operator.forceRelease(name), 0);
  const readers = [await one.readWrite(name).read().acquire(), await two.readWrite(name).read().acquire()];
  assert.equal(await operator.forceRelease(name), 2);
  const reentrant = await one.reentrant(name, new Owner()).acquire();
  assert.equal(await operator.forceRelease(name), 1);
  const permits = [await one.semaphore(name, { limit: 2 }).acquire(), await two.semaphore(name, { limit: 2 }).acquire()];
  assert.equal(await operator.forceRelease(name), 2);
  await fleet.redis.set(name, "another library's", 'PX', 60_000);
  assert.equal(await operator.forceRelease(name), 1);
  for (const lease of [...readers, reentrant, ...permits]) {
    assert.equal(await lease.verify(), false);
    assert.equal(await lease.release(), 'already-expired');
  }
  assert.ok((await one.mutex(name).tryAcquire()) !== null);
});

test('what_is_no_lock_is_left_alone_and_a_name_that_can_not_be_is_refused', async () => {
  const operator = fleet.manager();
  const name = unique('data');
  await fleet.redis.rpush(name, '1');
  assert.ok(isLeaseholdError(await caught(operator.forceRelease(name)), 'wrong-kind'));
  assert.equal(await fleet.redis.llen(name), 1);
  assert.ok(isLeaseholdError(await caught(operator.forceRelease('')), 'invalid-option'));
  await operator.close();
  assert.ok(isLeaseholdError(await caught(operator.forceRelease(name)), 'closed'));
});

test('a_key_without_a_ttl_is_deleted_only_with_foreign', async () => {
  const [operator, name] = [fleet.manager(), unique('data')];
  await fleet.redis.set(name, "somebody's data");
  const error = await caught(operator.forceRelease(name));
  assert.ok(isLeaseholdError(error, 'wrong-kind') && /no TTL.*`foreign`/.test(error.message), String(error));
  assert.ok(isLeaseholdError(await caught(operator.forceRelease(name, { foreign: false })), 'wrong-kind'));
  assert.equal(await fleet.redis.get(name), "somebody's data");
  for (const bad of [{ foreign: 1 }, { force: true }, null, 7]) {
    assert.ok(isLeaseholdError(await caught(operator.forceRelease(name, bad as never)), 'invalid-option'));
  }
  assert.equal(await operator.forceRelease(name, { foreign: true }), 1);
  assert.equal(await fleet.isThere(name), false);
});
