/** Tests semaphores: permits by weight, first come, first served. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asyncDispose } from '../support/host.js';
import { LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

/** Waits until this many waiters are in the queue. */
const queued = (name: string, count: number): Promise<void> =>
  until(async () => (await fleet.redis.zcount(`leasehold:{${name}}:queue`, 0, '+inf')) === count);

test('no_more_permits_are_out_than_there_are_and_each_release_gives_back_its_own', async () => {
  const name = unique('reports');
  const [one, two] = [fleet.manager(), fleet.manager()];
  const first = await one.semaphore(name, { limit: 3 }).acquire();
  const pair = await two.semaphore(name, { limit: 3, permits: 2 }).acquire();
  assert.ok(first.fence < pair.fence);
  for (const locks of [one, two]) assert.equal(await locks.semaphore(name, { limit: 3 }).tryAcquire(), null);
  assert.equal(await pair.release(), 'released');
  assert.equal(await pair.release(), 'released', 'a second call gives back nothing more');
  const second = await one.semaphore(name, { limit: 3, permits: 2 }).tryAcquire();
  assert.ok(second);
  assert.equal(await two.semaphore(name, { limit: 3 }).tryAcquire(), null);
  assert.equal((await one.query()).held.length, 2);
  await Promise.all([first.release(), second.release()]);
  assert.ok(!(await fleet.isThere(name)));
});

test('many_managers_never_hold_more_than_the_limit_and_work_beside_each_other', async () => {
  const [limit, name] = [5, unique('reports')];
  let [held, most] = [0, 0];
  const task = async (locks: LockManager, permits: number): Promise<void> => {
    const semaphore = locks.semaphore(name, { limit, permits });
    for (let round = 0; round < 10; round++) {
      await semaphore.run(async () => {
        held += permits;
        assert.ok(held <= limit, `${held} of ${limit}`);
        most = Math.max(most, held);
        await fleet.redis.ping();
        held -= permits;
      });
    }
  };
  const managers = [fleet.manager(), fleet.manager(), fleet.manager()];
  await Promise.all(managers.flatMap((locks) => [1, 2, 3].map((permits) => task(locks, permits))));
  assert.ok(most > 3, `never more than one at once: ${most}`);
  const all = [2, 3].map((permits, at) => managers[at]?.semaphore(name, { limit, permits }).tryAcquire());
  const leases = await Promise.all(all);
  for (const lease of leases) assert.ok(lease, 'the whole limit can be held at once');
  for (const lease of leases) await lease?.release();
  assert.ok(!(await fleet.isThere(name)));
});

test('a_big_request_is_not_passed_by_small_ones', async () => {
  const name = unique('reports');
  const [holder, big, small] = [fleet.manager(), fleet.manager(), fleet.manager()];
  const semaphore = (locks: LockManager, permits: number) => locks.semaphore(name, { limit: 3, permits });
  const [one, two] = [await semaphore(holder, 1).acquire(), await semaphore(holder, 1).acquire()];
  const order: string[] = [];
  const waiting = semaphore(big, 3).acquire().then((lease) => (order.push('big'), lease));
  await queued(name, 1);
  assert.equal(await semaphore(small, 1).tryAcquire(), null, 'one permit is free, but another waiter is first');
  const behind = semaphore(small, 1).acquire().then((lease) => (order.push('small'), lease));
  await queued(name, 2);
  await one.release();
  await queued(name, 2);
  await two.release();
  await (await waiting).release();
  await (await behind).release();
  assert.deepEqual(order, ['big', 'small']);
});

test('permits_of_the_dead_come_back_and_the_living_renew_theirs', async (t) => {
  const [time, name, server] = [new VirtualTime(t), unique('reports'), new MemoryServer()];
  const [locks, other] = [new LockManager(server), new LockManager(server)];
  const dead = await locks.semaphore(name, { limit: 2, renew: false }).acquire();
  const alive = await locks.semaphore(name, { limit: 2 }).acquire();
  const acquiring = other.semaphore(name, { limit: 2 }).acquire();
  await time.until(acquiring, 100);
  const lease = await acquiring;
  assert.equal(await dead.lost, 'expired');
  assert.ok(await alive.verify());
  assert.equal(await dead.release(), 'already-expired');
  assert.equal(await other.semaphore(name, { limit: 2 }).tryAcquire(), null, 'a late release gives back nothing');
  await Promise.all([lease.release(), alive.release()]);
});

test('the_latest_limit_stands_and_takes_nothing_from_anybody', async () => {
  const name = unique('reports');
  const [locks, other] = [fleet.manager(), fleet.manager()];
  const held = [await locks.semaphore(name, { limit: 3 }).acquire(), await locks.semaphore(name, { limit: 3 }).acquire()];
  assert.equal(await other.semaphore(name, { limit: 2 }).tryAcquire(), null, 'lowered to two');
  for (const lease of held) assert.ok(await lease.verify());
  const third = await other.semaphore(name, { limit: 3 }).tryAcquire();
  assert.ok(third, 'raised again');
  const waiting = locks.semaphore(name, { limit: 3, permits: 3 }).acquire();
  await queued(name, 1);
  assert.equal(await other.semaphore(name, { limit: 1 }).tryAcquire(), null, 'lowered to one');
  for (const lease of [...held, third]) await lease.release();
  await (await waiting).release();
});

test('await_using_gives_a_permit_back_and_nested_holds_keep_it', async () => {
  const semaphore = fleet.manager().semaphore(unique('reports'), { limit: 1 });
  const lease = await semaphore.acquire();
  const nested = lease.nested();
  await lease[asyncDispose]();
  assert.equal(await semaphore.tryAcquire(), null);
  await nested[asyncDispose]();
  const next = await semaphore.tryAcquire();
  assert.ok(next);
  await next.release();
});

test('a_wait_can_be_given_up_and_then_takes_no_permit', async () => {
  const [locks, name] = [fleet.manager(), unique('reports')];
  const lease = await fleet.manager().semaphore(name, { limit: 1 }).acquire();
  const controller = new AbortController();
  const waiting = locks.semaphore(name, { limit: 1 }).acquire({ signal: controller.signal });
  await queued(name, 1);
  const reason = new Error('enough');
  controller.abort(reason);
  assert.equal(await caught(waiting), reason);
  await queued(name, 0);
  await lease.release();
  assert.ok(!(await fleet.isThere(name)));
});
