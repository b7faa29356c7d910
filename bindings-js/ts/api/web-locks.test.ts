/** Tests the Web Locks API for a fleet. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type LockManager } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';

const fleet = await Fleet.start();

test('a_request_holds_the_lock_until_its_callback_settles', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const answer = await locks.request(name, async (lock) => {
    assert.deepEqual([lock.name, lock.mode], [name, 'exclusive']);
    assert.deepEqual((await locks.query()).held.map(({ name, mode }) => ({ name, mode })), [{ name, mode: 'exclusive' }]);
    return 42;
  });
  assert.equal(answer, 42);
  assert.ok(!(await fleet.isThere(name)));
  const mine = new Error('mine');
  assert.equal(await caught(locks.request(name, {}, () => Promise.reject(mine))), mine);
  assert.ok(!(await fleet.isThere(name)));
});

test('requests_are_granted_in_their_order_and_shared_ones_together', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const order: string[] = [];
  let end = (): void => {};
  const first = locks.request(name, () => new Promise<void>((resolve) => (end = resolve)));
  await until(async () => fleet.isThere(name));
  let readers = 0;
  let together = 0;
  const read = async (): Promise<void> => {
    together = Math.max(together, ++readers);
    order.push('read');
    await new Promise((resolve) => setTimeout(resolve, 30));
    readers--;
  };
  const rest = [
    locks.request(name, { mode: 'shared' }, read),
    locks.request(name, { mode: 'shared' }, read),
    locks.request(name, async () => void order.push('write')),
    locks.request(name, { mode: 'shared' }, read),
  ];
  const { held, pending } = await locks.query();
  assert.deepEqual(held.map(({ mode }) => mode), ['exclusive']);
  assert.deepEqual(pending.map(({ mode }) => mode), ['shared', 'shared', 'exclusive', 'shared']);
  assert.ok(pending.every(({ clientId }) => clientId === held[0]?.clientId));
  end();
  await Promise.all([first, ...rest]);
  assert.deepEqual(order, ['read', 'read', 'write', 'read']);
  assert.equal(together, 2);
});

test('if_available_calls_back_with_null_when_it_is_not', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  await locks.request(name, async () => {
    for (const manager of [locks, others]) {
      assert.equal(await manager.request(name, { ifAvailable: true }, (lock) => (lock === null ? 'busy' : 'free')), 'busy');
    }
  });
  assert.equal(await others.request(name, { ifAvailable: true }, (lock) => (lock === null ? 'busy' : 'free')), 'free');
});

test('a_signal_ends_a_request_that_waits', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const controller = new AbortController();
  await locks.request(name, async () => {
    const waiting = caught(locks.request(name, { signal: controller.signal }, () => assert.fail()));
    await until(async () => (await locks.query()).pending.length === 1);
    controller.abort();
    assert.equal((await waiting as Error).name, 'AbortError');
  });
  assert.equal(await caught(locks.request(name, { signal: controller.signal }, () => assert.fail())), controller.signal.reason);
});

test('a_request_waits_for_ever_unless_it_says_how_long', async () => {
  const [locks, name] = [fleet.manager({ wait: 20 }), unique()];
  let granted = false;
  const { promise, resolve } = deferred();
  const first = locks.request(name, () => promise);
  const second = locks.request(name, () => void (granted = true));
  const third = caught(locks.request(name, { wait: 50 }, () => assert.fail()));
  assert.ok(isLeaseholdError(await third, 'busy'));
  assert.ok(!granted);
  resolve();
  await Promise.all([first, second]);
  assert.ok(granted);
});

test('what_a_fleet_can_not_do_is_refused_with_a_typed_error', async () => {
  const locks = fleet.manager();
  const never = (): never => assert.fail();
  assert.ok(isLeaseholdError(await caught(locks.request('a', { steal: true }, never)), 'unsupported'));
  const signal = new AbortController().signal;
  assert.ok(isLeaseholdError(await caught(locks.request('a', { ifAvailable: true, signal }, never)), 'unsupported'));
});

test('a_lost_lock_rejects_the_request', async () => {
  const [locks, name] = [fleet.manager({ ttl: 300 }), unique()];
  const error = await caught(locks.request(name, async () => {
    await fleet.redis.del(name);
    await new Promise(() => {});
  }));
  assert.ok(isLeaseholdError(error, 'lost'));
});

test('bad_requests_reject_with_the_field', async () => {
  const locks = fleet.manager() as unknown as { request(...args: unknown[]): Promise<unknown> } & LockManager;
  const never = (): never => assert.fail();
  const bad: [string, unknown[]][] = [
    ['callback', ['a']], ['callback', ['a', {}]], ['callback', ['a', {}, 'no function']], ['callback', ['a', null]],
    ['name', [undefined, never]], ['name', ['', never]], ['name', [Symbol('x'), never]],
    ['mode', ['a', { mode: 'write' }, never]], ['mode', ['a', { mode: null }, never]],
    ['ifAvailable', ['a', { ifAvailable: 1 }, never]], ['steal', ['a', { steal: 'yes' }, never]],
    ['signal', ['a', { signal: {} }, never]], ['ttl', ['a', { ttl: 'soon' }, never]], ['options', ['a', 7, never]],
    ['timeout', ['a', { timeout: 7 }, never]],
  ];
  for (const [field, args] of bad) {
    const error = await caught(locks.request(...args));
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === field, `${field}: ${error}`);
  }
});

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
