/** Tests several names as one lock, on a real server. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError } from '../index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';

const fleet = await Fleet.start();

test('several_names_are_one_lease_with_a_fence_for_each', async () => {
  const [locks, other, tag] = [fleet.manager(), fleet.manager(), unique()];
  const names = [`{${tag}}:stock`, `{${tag}}:invoice`] as const;
  const lease = await locks.multi(names, { oneScript: true }).acquire();
  assert.deepEqual([...lease.fences.keys()], names);
  assert.equal(lease.fence, Math.max(...lease.fences.values()));
  assert.ok((await fleet.isThere(names[0])) && (await fleet.isThere(names[1])));
  assert.equal(await other.multi([names[1], 'elsewhere']).tryAcquire(), null);
  // A call that does not get all names keeps none.
  assert.equal(await (await locks.mutex('elsewhere').acquire()).release(), 'released');
  await lease.extend('10m');
  assert.ok((await lease.verify()) && lease.remaining > 400_000);
  assert.ok(isLeaseholdError(await caught(lease.downgrade()), 'unsupported'));
  assert.equal(await lease.release(), 'released');
  assert.ok(!(await fleet.isThere(names[0])) && !(await fleet.isThere(names[1])));
  const single = await locks.mutex(names[1]).acquire();
  assert.deepEqual([...single.fences], [[names[1], single.fence]]);
  await single.release();
});

test('pairs_in_opposite_orders_never_deadlock', async () => {
  const [one, two, name] = [fleet.manager(), fleet.manager(), unique()];
  const [a, b] = [`${name}:a`, `${name}:b`];
  const pairs = Array.from({ length: 100 }, () => [
    one.multi([a, b], { wait: 'forever' }).run(() => 1), two.multi([b, a], { wait: 'forever' }).run(() => 1),
  ]);
  assert.equal((await Promise.all(pairs.flat())).length, 200);
});

test('names_that_can_not_be_are_refused_at_once', async () => {
  const locks = fleet.manager();
  const unreadable = new Proxy(['a'], { get: () => { throw new Error('no'); } });
  for (const names of [[], ['a', 'a'], 'ab' as never, unreadable, Array.from({ length: 257 }, (_, i) => `${i}`)]) {
    assert.throws(() => locks.multi(names), { code: 'invalid-option', field: 'names' });
  }
  assert.throws(() => locks.multi(['a', 'x{y']), { code: 'invalid-option', field: 'name' });
  const rate = locks.semaphore('b', { limit: 2, per: '1m' });
  assert.throws(() => locks.multi(['a', rate]), { code: 'unsupported' });
  assert.ok(isLeaseholdError(await caught(locks.multi(['a', 'b'], { oneScript: true }).acquire()), 'cross-slot'));
});
