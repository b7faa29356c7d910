/** Tests the Web Locks API for a fleet. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type Lease, LockManager, type RequestOptions } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

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
    // The first two are granted in one turn.
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
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
  const third = caught(locks.request(name, { wait: 500 }, () => assert.fail()));
  assert.ok(isLeaseholdError(await third, 'busy'));
  assert.ok(!granted);
  resolve();
  await Promise.all([first, second]);
  assert.ok(granted);
});

test('options_that_exclude_each_other_are_refused_as_browsers_refuse_them', async () => {
  const locks = fleet.manager();
  const { signal } = new AbortController();
  const refused: RequestOptions[] = [
    { steal: true, ifAvailable: true }, { steal: true, mode: 'shared' }, { steal: true, signal }, { ifAvailable: true, signal },
  ];
  for (const options of refused) assertNotSupported(await caught(locks.request('a', options, () => assert.fail())));
});

test('a_name_that_begins_with_a_hyphen_is_reserved', async () => {
  const locks = fleet.manager();
  for (const name of ['-', '-lock']) assertNotSupported(await caught(locks.request(name, () => assert.fail())));
  assert.equal(await locks.request('a-lock', ({ name }) => name), 'a-lock');
});

test('any_other_text_is_a_name_and_different_texts_are_different_locks', async () => {
  for (const prefix of ['', 'own:']) {
    const [locks, others] = [fleet.manager({ prefix }), fleet.manager({ prefix })];
    const names = ['', 'a\0b', '\uD800', '\uDC00', '\uDC00\uD800', '\uFFFD', '\uFFFF', '}', '{', '{}', '%007b', 'leasehold:x', '🔒'];
    const held = await holdAll(locks, names);
    for (const name of names) {
      assert.equal(await others.request(name, { ifAvailable: true }, (lock) => lock), null, JSON.stringify(name));
    }
    assert.deepEqual((await locks.query()).held.map(({ name }) => name).sort(), [...names].sort());
    await held.end();
    for (const name of names) assert.equal(await others.request(name, (lock) => lock.name), name);
  }
});

test('a_name_of_a_request_is_the_same_lock_as_a_mutex_of_that_name', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await locks.request(name, async () => assert.equal(await locks.mutex(name).tryAcquire(), null));
});

test('arguments_are_converted_as_browsers_convert_them', async () => {
  const locks = fleet.manager() as unknown as Untyped;
  assert.equal(await locks.request(7, null, ({ name, mode }: Lease) => `${typeof name} ${name} ${mode}`), 'string 7 exclusive');
  assert.equal(await locks.request('a', { mode: new String('shared') }, ({ mode }: Lease) => mode), 'shared');
  await locks.request('a', async () => {
    for (const ifAvailable of [1, 'yes', {}]) assert.equal(await locks.request('a', { ifAvailable, wait: '1s' }, (lock: Lease | null) => lock), null);
  });
  for (const [ifAvailable, steal] of [[0, ''], [null, null], [undefined, undefined]]) {
    assert.ok(await locks.request('a', { ifAvailable, steal, mode: 'shared' }, (lock: Lease | null) => lock !== null));
  }
});

test('a_request_without_its_manager_rejects_and_does_not_throw', async () => {
  const { request, query } = fleet.manager() as unknown as { request: Method; query: Method };
  for (const self of [undefined, null, {}, 'manager']) {
    for (const promise of [request.call(self, 'a', () => {}), query.call(self)]) {
      const error = await caught(promise);
      assert.ok(error instanceof TypeError && isLeaseholdError(error, 'invalid-option') && error.field === 'this', String(error));
    }
  }
});

test('query_shows_the_requests_that_were_made_just_before', async () => {
  const [locks, others, name, free] = [fleet.manager(), fleet.manager(), unique(), unique()];
  const first = await holdAll(others, [name]);
  let end = (): void => {};
  const rest = [
    locks.request(name, () => {}),
    locks.request(free, () => new Promise<void>((resolve) => (end = resolve))),
    locks.request(free, { mode: 'shared' }, () => {}),
  ];
  const { held, pending } = await locks.query();
  assert.deepEqual(held.map(({ name }) => name), [free]);
  assert.deepEqual(pending.map(({ name, mode }) => [name, mode]), [[name, 'exclusive'], [free, 'shared']]);
  end();
  await Promise.all([first.end(), ...rest]);
});

test('query_shows_all_readers_that_were_let_in_together', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const ends: (() => void)[] = [];
  const readers = [1, 2, 3, 4, 5].map(() => locks.request(name, { mode: 'shared' }, () => new Promise<void>((resolve) => ends.push(resolve))));
  const writer = locks.request(name, () => {});
  const { held, pending } = await locks.query();
  assert.deepEqual([held.length, pending.map(({ mode }) => mode)], [5, ['exclusive']]);
  for (const end of ends) end();
  await Promise.all([writer, ...readers]);
});

test('query_answers_while_the_server_is_silent', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server, { responseTimeout: '2s' });
  await locks.request('warm', () => {});
  server.delay('10m');
  const waiting = caught(locks.request('door', { wait: '1s' }, () => {}));
  const seen = locks.query();
  assert.ok((await time.until(seen)) <= 2_000);
  assert.deepEqual((await seen).held, []);
  await time.until(waiting);
  assert.ok(isLeaseholdError(await waiting, 'unreachable'));
});

test('a_lost_lock_rejects_the_request', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const error = await caught(locks.request(name, async (lease) => {
    await fleet.redis.del(name);
    void lease.verify();
    await new Promise(() => {});
  }));
  assert.ok(isLeaseholdError(error, 'lost'));
});

test('bad_requests_reject_with_the_field', async () => {
  const locks = fleet.manager() as unknown as Untyped;
  const never = (): never => assert.fail();
  const bad: [string, unknown[]][] = [
    ['callback', ['a']], ['callback', ['a', {}]], ['callback', ['a', {}, 'no function']], ['callback', ['a', null]],
    ['callback', []], ['name', [undefined, never]], ['name', [null, never]], ['name', [Symbol('x'), never]],
    ['name', ['x'.repeat(70_000), never]], ['name', ['\uD800'.repeat(20_000), never]],
    ['mode', ['a', { mode: 'write' }, never]], ['mode', ['a', { mode: null }, never]], ['mode', ['a', { mode: Symbol('x') }, never]],
    ['signal', ['a', { signal: {} }, never]], ['signal', ['a', { signal: null }, never]], ['signal', ['a', { signal: 'x', steal: true }, never]], ['ttl', ['a', { ttl: 'soon' }, never]], ['options', ['a', 7, never]],
    ['timeout', ['a', { timeout: 7 }, never]],
  ];
  for (const [field, args] of bad) {
    const error = await caught(locks.request(...args));
    assert.ok(isLeaseholdError(error, 'invalid-option') && error instanceof TypeError && error.field === field, `${field}: ${error}`);
  }
});

type Method = (...args: unknown[]) => Promise<unknown>;
type Untyped = { request(...args: any[]): Promise<unknown> };

/** A `DOMException` as browsers throw it, with an error of this package as its cause. */
function assertNotSupported(error: unknown): void {
  assert.ok(error instanceof DOMException, String(error));
  assert.deepEqual([error.name, error.code], ['NotSupportedError', DOMException.NOT_SUPPORTED_ERR]);
  assert.ok(isLeaseholdError(error.cause, 'unsupported'));
}

/** Holds locks until they are given back. */
async function holdAll(locks: LockManager, names: readonly string[]): Promise<{ end(): Promise<void> }> {
  const { promise, resolve } = deferred();
  const requests: Promise<void>[] = [];
  await Promise.all(names.map((name) => new Promise<void>((granted) => {
    requests.push(locks.request(name, () => (granted(), promise)));
  })));
  return { end: async () => (resolve(), void (await Promise.all(requests))) };
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
