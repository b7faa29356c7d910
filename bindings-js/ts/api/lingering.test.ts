/** Tests leases that linger after their release, on a real server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type LockManager, Owner, isLeaseholdError } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';

const fleet = await Fleet.start();

/** Takes and releases a lock until its lease lingers. The client needs messages for that, and asks for them with the first lock. */
async function linger(locks: LockManager, name: string): Promise<void> {
  await until(async () => {
    await (await locks.mutex(name, { linger: '60s' }).acquire()).release();
    return fleet.isThere(name);
  });
}

test('a_lingering_lease_goes_to_the_next_caller_of_the_manager_with_the_next_fence', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await linger(locks, name);
  const lock = locks.mutex(name, { linger: '60s' });
  const first = await lock.acquire();
  await first.release();
  const next = await lock.acquire();
  assert.ok(next.fence > first.fence && next.remaining > 0);
  await next.release();
  const { held, lingering } = await locks.query();
  assert.deepEqual([held, lingering.map((lock) => [lock.name, lock.mode])], [[], [[name, 'exclusive']]]);
  assert.ok(await fleet.isThere(name));
  await locks.close();
  assert.ok(!(await fleet.isThere(name)));
});

test('another_manager_gets_a_lingering_lock_soon_whether_it_waits_or_tries', async () => {
  const [locks, other, waited, tried] = [fleet.manager({ linger: '60s' }), fleet.manager(), unique(), unique()];
  await linger(locks, waited);
  await (await other.mutex(waited).acquire()).release();
  await linger(locks, tried);
  await until(async () => (await other.mutex(tried).tryAcquire()) !== null);
});

test('locks_that_cannot_linger_refuse_it_and_ignore_the_manager', async () => {
  const [locks, owner] = [fleet.manager({ linger: '1s' }), new Owner()];
  await (await locks.reentrant(unique(), owner).acquire()).release();
  await (await locks.semaphore(unique(), { limit: 2 }).acquire()).release();
  await (await locks.multi([unique(), unique()]).acquire()).release();
  const refused = await caught(locks.reentrant(unique(), owner).acquire({ linger: '1s' }));
  assert.ok(isLeaseholdError(refused, 'invalid-option') && refused.field === 'linger');
  assert.throws(() => locks.mutex('door', { linger: 0 }), { code: 'invalid-option', field: 'linger' });
});
