/** Bad input is refused at once, with an error that names the field. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, LockManager, type LockManagerOptions, type LockOptions, Owner, type SemaphoreOptions } from '../index.js';
import { caught } from '../testing/expect.js';
import { VirtualTime } from '../testing/virtual-time.js';

/** A connection that must not be used. */
const nobody = { call: () => assert.fail('something was sent') };
/** Values that untyped callers may pass. */
type Any = never;

const throwing = (field: string): object => Object.defineProperty({}, field, {
  enumerable: true,
  get: () => {
    throw new Error('a getter');
  },
});
const noDurations: unknown[] = [NaN, Infinity, -Infinity, -1, -0.5, 2 ** 60, '', 'soon', '30', '-1s', '1 h 5 m', 's', '1e3s', '0x10ms', null, true, Symbol('x'), 10n, {}, [], () => 1];

function assertField(error: unknown, field: string): void {
  assert.ok(isLeaseholdError(error, 'invalid-option'), `${field}: ${error}`);
  assert.equal(error.field, field, error.message);
  assert.ok(error instanceof TypeError && !error.retryable && error.message.length > field.length + 10);
}

function assertRefused(field: string, call: () => unknown): void {
  try {
    call();
  } catch (error) {
    return assertField(error, field);
  }
  assert.fail(`${field} was taken`);
}

test('a_managers_options_are_checked_at_its_construction', () => {
  const bad: [string, unknown][] = [
    ['options', 7], ['options', 'prefix'], ['options', null], ['options', []], ['options', () => {}],
    ['prefix', { prefix: 7 }], ['prefix', { prefix: null }], ['prefix', throwing('prefix')], ['tll', { tll: '30s' }],
    ['localHandoffs', { localHandoffs: 1.5 }], ['localHandoffs', { localHandoffs: -1 }], ['localHandoffs', { localHandoffs: '3' }],
    ['localHandoffs', { localHandoffs: 1024 }], ['localHandoffs', { localHandoffs: NaN }], ['localHandoffs', { localHandoffs: 3n }],
    ['mixedFleet', { mixedFleet: 'false' }], ['renew', { renew: 0 }], ['wait', { wait: 0 }], ['wait', { wait: 'for ever' }],
    ['claimWindow', { claimWindow: '99ms' }], ['claimWindow', { claimWindow: '61s' }],
    ['responseTimeout', { responseTimeout: 9 }], ['responseTimeout', { responseTimeout: '2m' }],
    ...['ttl', 'maxHold', 'wait', 'claimWindow', 'responseTimeout'].flatMap((field) =>
      noDurations.map((value): [string, unknown] => [field, { [field]: value }])),
  ];
  for (const [field, options] of bad) assertRefused(field, () => new LockManager(nobody, options as LockManagerOptions));
});

test('a_connection_that_is_none_is_refused', () => {
  for (const connection of [undefined, null, 7, 'redis://127.0.0.1', {}, [], { call: 1 }, () => {}, Symbol('x')]) {
    assertRefused('connection', () => new LockManager(connection as Any));
  }
  for (const isCluster of [null, 1, 'true', {}]) assertRefused('connection', () => new LockManager({ ...nobody, isCluster: isCluster as Any }));
});

test('what_throws_when_it_is_looked_at_is_refused_as_well', async () => {
  const revoked = (): Any => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy as Any;
  };
  assertRefused('options', () => new LockManager(nobody, revoked()));
  assertRefused('options', () => new LockManager(nobody).mutex('a', revoked()));
  assertField(await caught(new LockManager(nobody).mutex('a').acquire(revoked())), 'options');
  assertField(await caught(new LockManager(nobody).mutex('a').acquire({ ttl: revoked() })), 'ttl');
  assertRefused('connection', () => new LockManager(revoked()));
  assertRefused('connection', () => new LockManager(throwing('call') as Any));
});

test('a_locks_options_are_checked_where_they_are_given', async () => {
  const locks = new LockManager(nobody);
  for (const name of [undefined, null, 7, {}, Symbol('x'), ['a'], '\ud800', 'a\udfff']) {
    assertRefused('name', () => locks.mutex(name as Any));
    assertRefused('name', () => locks.readWrite(name as Any));
    assertField(await caught(locks.inspect(name as Any)), 'name');
  }
  const bad: [string, unknown][] = [
    ['options', 7], ['ttl', throwing('ttl')], ['renew', { renew: 'yes' }], ['signal', { signal: AbortSignal.abort() }],
    ...['ttl', 'maxHold', 'wait'].flatMap((field) => noDurations.map((value): [string, unknown] => [field, { [field]: value }])),
  ];
  for (const [field, options] of bad) {
    assertRefused(field, () => locks.mutex('a', options as LockOptions));
    assertRefused(field, () => locks.readWrite('a').read(options as LockOptions));
    if (field === 'signal') continue;
    assertField(await caught(locks.mutex('a').acquire(options as LockOptions)), field);
    assertField(await caught(locks.mutex('a').tryAcquire(options as LockOptions)), field);
    assertField(await caught(locks.mutex('a').run(() => {}, options as LockOptions)), field);
  }
  for (const signal of [null, 7, {}, 'abort', { aborted: true }, new AbortController()]) {
    assertField(await caught(locks.mutex('a').acquire({ signal: signal as Any })), 'signal');
  }
  assertField(await caught(locks.mutex('a').run(undefined as Any)), 'work');
});

test('names_and_times_out_of_bounds_are_refused_where_they_are_given', async () => {
  const locks = new LockManager(nobody);
  for (const name of ['', 'a}b', '}a', 'x{y', '{}x', '{}{a}', 'leasehold:door', 'n'.repeat(64 * 1024 + 1), '\u{1F512}'.repeat(16 * 1024) + 'n']) {
    assertRefused('name', () => locks.mutex(name));
    assertRefused('name', () => locks.readWrite(name));
    assertField(await caught(locks.inspect(name)), 'name');
    // Requests take any text, as browsers do, but no longer one.
    if (name.length > 1_000) assertField(await caught(locks.request(name, () => {})), 'name');
  }
  const bad: [string, LockOptions][] = [
    ['ttl', { ttl: 0 }], ['ttl', { ttl: 9.9 }], ['ttl', { ttl: '30.01d' }], ['wait', { wait: 0.5 }], ['wait', { wait: '31d' }],
    ['maxHold', { maxHold: 0 }], ['maxHold', { maxHold: '31d' }], ['maxHold', { maxHold: '1h', renew: false }],
  ];
  for (const [field, options] of bad) {
    assertRefused(field, () => new LockManager(nobody, options));
    assertRefused(field, () => locks.mutex('a', options));
    assertRefused(field, () => locks.readWrite('a', options));
    assertRefused(field, () => locks.readWrite('a').read(options));
    assertRefused(field, () => locks.readWrite('a').write(options));
    assertField(await caught(locks.mutex('a').acquire(options)), field);
    assertField(await caught(locks.mutex('a').tryAcquire(options)), field);
    assertField(await caught(locks.mutex('a').run(() => {}, options)), field);
  }
  for (const prefix of ['leasehold:', 'leasehold:app:', 'open{', '{}', 'close}', 'p'.repeat(64 * 1024), '\ud83d', '\udd12:']) {
    assertRefused('prefix', () => new LockManager(nobody, { prefix }));
    assertField(await caught(LockManager.quorum([nobody, nobody, nobody], { prefix })), 'prefix');
  }
  // These prefixes can have names, but not these.
  for (const [prefix, name] of [['leasehold', ':door'], ['p'.repeat(64 * 1024 - 1), 'door'], ['app:', 'x{y']]) {
    assertRefused('name', () => new LockManager(nobody, { prefix }).mutex(name as string));
  }
  // Names and prefixes that together make a hash tag.
  new LockManager(nobody, { prefix: '{billing}:' }).mutex('a{b');
  assertRefused('maxHold', () => new LockManager(nobody, { maxHold: '1h' }).mutex('a', { renew: false }));
});

test('an_owner_that_is_none_is_refused', () => {
  const locks = new LockManager(nobody);
  for (const owner of [undefined, null, 7, 'me', {}, [], () => {}, Symbol('x'), 10n, NaN, Owner, { id: 0 }, { id: 1 }, { ttl: '30s' }, Object.create(new Owner())]) {
    assertRefused('owner', () => locks.reentrant('a', owner as Any));
  }
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  for (const owner of [throwing('id'), revoked.proxy]) assertRefused('owner', () => locks.reentrant('a', owner as Any));
  assertRefused('name', () => locks.reentrant(7 as Any, new Owner()));
  assertRefused('ttl', () => locks.reentrant('a', new Owner(), { ttl: 9 }));
});

test('permits_that_can_not_be_are_refused_before_anything_is_sent', async () => {
  const locks = new LockManager(nobody);
  const noCounts: unknown[] = [NaN, Infinity, -Infinity, 0, -0, -1, 0.5, 1.5, 1_000_001, 2 ** 53, '3', '', null, true, 3n, Symbol('x'), {}, [], [3], () => 3];
  for (const count of noCounts) {
    assertRefused('limit', () => locks.semaphore('a', { limit: count } as SemaphoreOptions));
    assertRefused('permits', () => locks.semaphore('a', { limit: 1_000_000, permits: count } as SemaphoreOptions));
  }
  assertRefused('permits', () => locks.semaphore('a', { limit: 3, permits: 4 }));
  const bad: [string, unknown][] = [
    ['limit', undefined], ['limit', {}], ['limit', { permits: 1 }], ['options', 3], ['options', null], ['options', []],
    ['limits', { limits: 3 }], ['limit', throwing('limit')], ['ttl', { limit: 3, ttl: 0 }], ['renew', { limit: 3, renew: 1 }],
  ];
  for (const [field, options] of bad) assertRefused(field, () => locks.semaphore('a', options as SemaphoreOptions));
  assertRefused('name', () => locks.semaphore('' , { limit: 3 }));
  assertField(await caught(locks.semaphore('a', { limit: 3 }).acquire({ permits: 2 } as Any)), 'permits');
  locks.semaphore('a', { limit: 1_000_000, permits: 1_000_000, ttl: '1m' });
});

test('times_at_their_bounds_are_taken', () => {
  const locks = new LockManager(nobody);
  const good: LockOptions[] = [{ ttl: 10 }, { ttl: '24h' }, { wait: 1 }, { wait: '30d' }, { wait: 'forever' }, { maxHold: 10 }, { maxHold: '30d' }];
  for (const options of good) locks.mutex('a', options);
});

test('a_refused_manager_leaves_nothing_behind', async () => {
  const before = process.getActiveResourcesInfo();
  for (let i = 0; i < 1_000; i++) assertRefused('connection', () => new LockManager({} as Any));
  assert.deepEqual(process.getActiveResourcesInfo(), before);
});

test('a_connection_that_answers_nonsense_is_told_as_such', async (t) => {
  const time = new VirtualTime(t);
  const circular: unknown[] = [];
  circular.push(circular);
  const nonsense: unknown[] = [undefined, null, 7, 'OK', true, {}, [], [[]], circular, [1, 2, 3], Symbol('x'), 10n ** 30n, new Map(), Object.create(null), new Uint8Array([255, 254]), ['entered', NaN, 1, 1, 1, 1, 1], ['entered', 2 ** 70, 1, 1, 1, 1, 1]];
  for (const answer of nonsense) {
    const locks = new LockManager({ call: async () => answer });
    const acquired = caught(locks.mutex('a').acquire());
    await time.until(acquired, 1_000);
    const error = await acquired;
    assert.ok(isLeaseholdError(error), String(error));
    assert.ok(['protocol', 'unreachable'].includes(error.code), `${String(error)}`);
    await time.until(locks.close());
  }
});

test('a_connection_that_throws_is_unreachable_and_keeps_its_error', async (t) => {
  const time = new VirtualTime(t);
  for (const thrown of [new Error('broken'), 'a text', undefined, Symbol('x'), Object.create(null)]) {
    for (const call of [() => { throw thrown; }, () => Promise.reject(thrown)]) {
      const locks = new LockManager({ call } as Any);
      const acquired = caught(locks.mutex('a').acquire({ wait: '5s' }));
      assert.ok((await time.until(acquired)) <= 5_010);
      const error = await acquired;
      assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
      if (thrown instanceof Error) assert.equal(error.cause, thrown);
      await time.until(locks.close());
    }
  }
});

test('a_connection_that_never_answers_keeps_nobody_waiting_for_ever', async (t) => {
  const time = new VirtualTime(t);
  const locks = new LockManager({ call: () => new Promise(() => {}), subscribe: () => new Promise(() => {}) } as Any, { responseTimeout: '2s' });
  const calls: [Promise<unknown>, number][] = [
    [locks.mutex('a').acquire({ wait: '5s' }), 5_000], [locks.mutex('b').tryAcquire({ wait: '1s' }), 1_000], [locks.mutex('c').tryAcquire(), 2_000],
    [locks.inspect('d'), 2_000], [locks.forceRelease('e'), 2_000],
  ];
  await Promise.all(calls.map(async ([call, limit]) => {
    const began = time.now;
    assert.ok(isLeaseholdError(await caught(call), 'unreachable'));
    assert.ok(time.now - began <= limit, `${time.now - began} of ${limit} ms`);
  }).concat(time.pass(6_000)));
  assert.ok((await time.until(locks.close())) <= 2_000);
});

test('a_plain_connection_to_one_server_of_a_cluster_is_unsupported_and_told_what_to_give', async () => {
  for (const refusal of ['MOVED 12255 127.0.0.1:7323', "CROSSSLOT Keys in request don't hash to the same slot"]) {
    const locks = new LockManager({ call: async (args: string[]) => (args[0] === 'INFO' ? '' : Promise.reject(new Error(refusal))) });
    const error = await caught(locks.mutex('a').tryAcquire());
    assert.ok(isLeaseholdError(error, 'unsupported') && error.message.includes(`cluster client: ${refusal}`), String(error));
    await locks.close();
  }
});

test('what_is_missing_in_an_option_is_named', async () => {
  const locks = new LockManager({ call: async () => null });
  const messages: [() => unknown, RegExp][] = [
    [() => locks.mutex('a', { waitForReplicas: { min: 1 } as never }), /waitForReplicas.*no `timeout`/],
    [() => locks.mutex('a', { waitForReplicas: { min: 1.5, timeout: 10 } }), /`min` 1\.5: give a whole number/],
    [() => locks.multi([]), /names.*is empty/],
    [() => locks.multi(Array.from({ length: 257 }, (_, at) => `n${at}`)), /names.*has 257/],
  ];
  for (const [make, message] of messages) assert.throws(make, message);
  await locks.close();
});

test('durations_are_milliseconds_or_a_text_with_a_unit', async () => {
  const ttls: [LockOptions['ttl'], string][] = [[1_500, '1500'], ['500ms', '500'], ['30s', '30000'], ['1.5s', '1500'], ['5m', '300000'], ['1h', '3600000'], ['1d', '86400000'], ['30d', '2592000000']];
  for (const [ttl, expected] of ttls) {
    const sent: string[][] = [];
    const locks = new LockManager({ call: async (args: string[]) => (args[0] === 'EVALSHA' && sent.push(args), Promise.reject(new Error('ERR enough'))) });
    await caught(locks.mutex('a').acquire({ ttl }));
    // The last argument of the fast path.
    assert.equal(sent[0]?.at(-1), expected, String(ttl));
  }
});
