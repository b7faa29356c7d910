/** Tests several names as one lock, on a real server. */

import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';

import { isLeaseholdError, type Lock, LockManager, Owner, type ReadWriteLock } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

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

test('one_lease_has_mutexes_readers_and_permits', async () => {
  const [locks, other, name] = [fleet.manager(), fleet.manager(), unique()];
  const tenant = (manager: LockManager, permits: number): Lock => manager.semaphore(`${name}:tenant`, { limit: 3, permits });
  const page = (manager: LockManager): ReadWriteLock => manager.readWrite(`${name}:page`);
  const both = locks.multi([`${name}:order`, page(locks).read()]);
  const all = locks.multi([both, tenant(locks, 2)]);
  assert.equal(all.name, `${name}:order, ${name}:page, ${name}:tenant`);
  const lease = await all.acquire();
  assert.deepEqual([...lease.fences.keys()], [`${name}:order`, `${name}:page`, `${name}:tenant`]);
  assert.equal(await other.mutex(`${name}:order`).tryAcquire(), null);
  assert.equal(await page(other).write().tryAcquire(), null);
  assert.equal(await tenant(other, 2).tryAcquire(), null);
  await (await other.multi([tenant(other, 1), page(other).read()]).acquire()).release();
  assert.equal(await lease.release(), 'released');
  await (await other.multi([tenant(other, 3), page(other).write()]).acquire()).release();
});

test('a_busy_error_names_the_first_lock_that_is_not_free_and_its_holder', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [locks, other, order, tenant] = [new LockManager(server), new LockManager(server), 'order:7', 'tenant:9'];
  const held = await locks.semaphore(tenant, { limit: 1 }).acquire();
  await time.pass(5_000); // A lease of this age has its holder's label on the server.
  const parts = other.multi([other.mutex(order), other.semaphore(tenant, { limit: 1 })]);
  const call = caught(parts.acquire({ wait: '1s' }));
  await time.until(call);
  const error = await call;
  assert.ok(isLeaseholdError(error, 'busy'), String(error));
  assert.deepEqual([error.lockName, error.busyName, error.holder?.label], ['order:7, tenant:9', 'tenant:9', `${hostname()}/${process.pid}`]);
  assert.match(error.message, /^lock `order:7, tenant:9`: busy after 1 s, because of `tenant:9`; held by /);
  await held.release();
});

test('other_kinds_and_other_values_are_refused_at_once', () => {
  const locks = fleet.manager();
  const lock = locks.mutex('a');
  assert.throws(() => locks.multi(['b', locks.reentrant('a', new Owner())]), { code: 'unsupported', lockName: 'a' });
  assert.throws(() => locks.multi([lock, 'a']), { code: 'invalid-option', field: 'names' });
  for (const part of [{}, null, 7, Object.create(lock), new Proxy(lock, {})]) {
    assert.throws(() => locks.multi(['b', part as never]), { code: 'invalid-option', field: 'name' });
  }
});
