/** Leases that end for their manager and stay on the server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, LockManager, Owner } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

test('a_detached_lease_is_adopted_after_its_manager_has_closed', async (t) => {
  const own = await Fleet.start((close) => t.after(close));
  const [first, second] = [own.manager(), own.manager()];
  const kinds = (locks: LockManager) => [locks.mutex('door'), locks.readWrite('page').read(), locks.semaphore('pool', { limit: 2, permits: 2 })];
  const detached = [];
  for (const lock of kinds(first)) {
    const lease = await lock.acquire();
    detached.push({ fence: lease.fence, token: await lease.detach({ for: '10m' }) });
    assert.ok(!lease.isHeld && lease.remaining === 0);
    assert.throws(() => lease.nested(), { code: 'not-held' });
    assert.deepEqual([await lease.release(), await lease.release()], ['detached', 'detached']);
    assert.ok(isLeaseholdError(await caught(lease.detach()), 'not-held'));
  }
  assert.deepEqual(await first.close(), { lost: 0, unreleased: 0 });
  for (const [at, lock] of kinds(second).entries()) {
    const { fence, token } = detached[at] as { fence: number; token: string };
    if (lock.mode === 'exclusive') assert.equal(await lock.tryAcquire(), null);
    const adopted = await lock.adopt(token);
    assert.ok(adopted.fence > fence && (await adopted.verify()));
    assert.equal(await adopted.release(), 'released');
    await (await lock.acquire()).release();
  }
});

test('the_server_keeps_it_for_the_time_that_was_asked_for', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await (await locks.mutex(name).acquire()).detach({ for: '5m' });
  assert.ok((await fleet.redis.pttl(name)) > 290_000);
  await (await locks.mutex(unique(), { ttl: '4m' }).acquire()).detach();
  for (const options of [{ for: 1 }, { for: '31d' }, { for: null }, { until: 5 }, 5]) {
    const lease = await locks.mutex(unique()).acquire();
    assert.ok(isLeaseholdError(await caught(lease.detach(options as never)), 'invalid-option'), JSON.stringify(options));
    assert.equal(await lease.release(), 'released');
  }
});

test('nothing_renews_it_and_then_the_lock_is_free', async (t) => {
  const time = new VirtualTime(t);
  const locks = new LockManager(new MemoryServer());
  const lease = await locks.mutex('door', { ttl: '3s' }).acquire();
  const lost = lease.lost;
  await time.result(lease.detach({ for: '9s' }));
  const waiting = locks.mutex('door').acquire();
  const took = await time.until(waiting, 100);
  assert.ok(took >= 9_000 && took <= 9_500, `${took} ms`);
  assert.equal(await Promise.race([lost, Promise.resolve('never')]), 'never');
  assert.equal(lease.signal.aborted, false);
  await (await waiting).release();
});

test('run_and_dispose_leave_it_alone', async () => {
  const [locks, name, other] = [fleet.manager(), unique(), unique()];
  const token = await locks.mutex(name).run((lease) => lease.detach({ for: '10m' }));
  assert.ok(await fleet.isThere(name));
  await (await locks.mutex(name).adopt(token)).release();
  {
    await using lease = await locks.mutex(other).acquire();
    await lease.detach({ for: '10m' });
  }
  assert.ok(await fleet.isThere(other));
});

test('a_lease_that_others_share_stays_held', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const reader = locks.readWrite(name).read();
  const [one, two] = [await reader.acquire(), await reader.acquire()];
  assert.ok(isLeaseholdError(await caught(one.detach()), 'conflict'));
  assert.throws(() => one.token(), { code: 'conflict' });
  await two.release();
  const nested = one.nested();
  assert.ok(isLeaseholdError(await caught(one.detach()), 'conflict'));
  await nested.release();
  assert.ok(one.isHeld);
  await one.detach();
  for (const lock of [locks.reentrant(unique(), new Owner()), locks.multi([unique(), unique()])]) {
    const lease = await lock.acquire();
    assert.ok(isLeaseholdError(await caught(lease.detach()), 'unsupported'));
    assert.equal(await lease.release(), 'released');
  }
});

test('a_lease_that_is_gone_is_lost', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  await fleet.redis.del(name);
  const error = await caught(lease.detach());
  assert.ok(isLeaseholdError(error, 'lost') && error.reason === 'gone', String(error));
  assert.equal(await lease.lost, 'gone');
  assert.equal(await lease.release(), 'already-expired');
});

test('each_detached_lease_ends_with_one_event', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const codes: string[] = [];
  locks.on('release', ({ code }) => codes.push(code));
  locks.on('lost', ({ reason }) => codes.push(reason));
  const lease = await locks.mutex(name).acquire();
  await lease.detach();
  await lease.release();
  await locks.close();
  assert.deepEqual(codes, ['detached']);
});

test('at_least_keeps_the_lock_whatever_the_work_does', async (t) => {
  const time = new VirtualTime(t);
  const locks = new LockManager(new MemoryServer());
  const mine = new Error('mine');
  await time.result(locks.mutex('done').run(() => {}, { atLeast: '20s' }));
  assert.equal(await time.result(caught(locks.mutex('failed', { atLeast: '20s' }).run(() => Promise.reject(mine)))), mine);
  const lease = await locks.mutex('released').acquire({ atLeast: '20s' });
  assert.equal(await time.result(lease.release()), 'detached');
  const names = ['done', 'failed', 'released'];
  const free = () => Promise.all(names.map(async (name) => (await time.result(locks.mutex(name).tryAcquire())) !== null));
  await time.pass(19_000, 100);
  assert.deepEqual(await free(), [false, false, false]);
  await time.pass(1_500, 100);
  assert.deepEqual(await free(), [true, true, true]);
  assert.throws(() => locks.mutex('door', { atLeast: '2h', maxHold: '1h' }), { code: 'invalid-option', field: 'atLeast' });
  const owned = await time.result(caught(locks.reentrant('owned', new Owner()).acquire({ atLeast: '1s' })));
  assert.ok(isLeaseholdError(owned, 'unsupported'));
});
