/** Any input of a program or a connection: WebAssembly does not trap, and errors are typed. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import fc from 'fast-check';

import { isLeaseholdError, LockManager, type LockOptions } from '../index.js';
import { runs } from '../testing/random.js';
import { VirtualTime } from '../testing/virtual-time.js';

const anything = fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withSparseArray: true, withTypedArray: true });
/** Mostly what makes sense, so that the next check is reached too. */
const mostly = <T, U>(usual: fc.Arbitrary<T>, other: fc.Arbitrary<U>) => fc.oneof({ arbitrary: usual, weight: 5 }, { arbitrary: other, weight: 1 });
const odd = fc.oneof(fc.integer(), fc.double(), fc.constantFrom(-1, 2 ** 53, 2 ** 63, 'x', null), fc.bigInt().map(String));
const number = mostly(fc.constantFrom(0, 1, '33', 9_000, 30_000, 1_800_000_000_000_000), odd);
const status = fc.constantFrom('entered', 'again', 'converted', 'waiting', 'busy', 'renewed', 'released', 'left', 'gone', 'taken', 'conflict');
const other = fc.oneof(fc.array(fc.oneof(number, status, fc.string({ unit: 'binary' }), fc.uint8Array()), { maxLength: 12 }), number, anything);
/** Replies to a script of the fast path, which has three keys, and to any other one. */
const reply = fc.record({
  common: mostly(fc.constantFrom('9000', '12345678', 1, 0), other),
  list: mostly(fc.tuple(status, number, number, number, mostly(fc.integer({ min: 1, max: 2_000 }), odd), number, fc.constantFrom(0, 1)), other),
});
const duration = mostly(fc.oneof(fc.integer({ min: 10, max: 60_000 }), fc.constantFrom('30s', '100ms')), fc.oneof(fc.double(), fc.constantFrom('1e9d', '-1s', '0ms', 'forever'), anything));
const options = fc.record({
  ttl: duration, wait: duration, maxHold: duration, linger: duration, renew: mostly(fc.boolean(), anything), label: mostly(fc.string(), anything),
}, { requiredKeys: [] });

/** How far the time moves in one step, in milliseconds. */
const STEP = 500;

function resolvable<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((set) => (resolve = set));
  return { promise, resolve };
}

/** The milliseconds that a list of a script says. */
function timeOf(list: unknown): number {
  const ms: unknown = Array.isArray(list) ? list[4] : undefined;
  return typeof ms === 'number' || typeof ms === 'string' ? Number(ms) || 0 : 0;
}

function assertTyped(error: unknown): void {
  assert.ok(isLeaseholdError(error), `not one of our errors: ${error instanceof Error ? error.stack : String(error)}`);
  assert.ok(error.code.length > 0 && error.message.length > 0);
}

async function typed(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    assertTyped(error);
  }
}

test('any_replies_of_a_connection_are_answers_or_typed_errors', async (t) => {
  const time = new VirtualTime(t);
  await fc.assert(fc.asyncProperty(fc.array(reply, { minLength: 1, maxLength: 20 }), async (replies) => {
    let at = 0;
    const most = Math.max(1_000, ...replies.map(({ list }) => timeOf(list)));
    const call = async (args: string[]) => {
      if (args[0] === 'INFO') return '';
      // If no time passed, a client would ask without end when the answer is "ask again at once".
      time.takes(1);
      const next = replies[at++ % replies.length];
      return args[2] === '3' ? next?.common : next?.list;
    };
    const locks = new LockManager({ call } as never);
    const lockAndRelease = typed(async () => {
      const lease = await locks.mutex('a').tryAcquire({ ttl: '1s' });
      if (lease === null) return;
      // Without it, the process warns of the loss.
      lease.lost.catch(() => {});
      assert.ok(lease.remaining <= most && Number.isSafeInteger(lease.fence), `${lease.remaining} ms, fence ${lease.fence}`);
      await typed(() => lease.extend(2_000));
      await typed(() => lease.verify());
      await typed(() => lease.release());
    });
    await time.until(lockAndRelease, STEP);
    await time.until(typed(() => locks.inspect('a')), STEP);
    await time.until(typed(() => locks.multi(['{a}1', '{a}2']).tryAcquire()), STEP);
    await time.until(typed(() => locks.semaphore('s', { limit: 3 }).tryAcquire()), STEP);
    await time.until(typed(() => locks.close()), STEP);
  }), runs(500));
});

test('any_messages_do_no_harm', async (t) => {
  const time = new VirtualTime(t);
  const payload = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.tuple(fc.constantFrom('grant', 'wanted', 'tried', 'revoked', 'asked', 'told'), fc.array(fc.oneof(number, fc.constantFrom('a', '$own', '$own:1', '$own:2', '-', '\n', 'exclusive')), { maxLength: 9 }))
      .map(([word, rest]) => [word, ...rest].join(' ')),
    anything,
  );
  await fc.assert(fc.asyncProperty(fc.array(payload, { maxLength: 10 }), async (payloads) => {
    const { promise: subscribed, resolve } = resolvable<{ id: string; hear: (payload: string) => void }>();
    const connection = {
      call: async (args: string[]) => {
        if (args[0] === 'INFO') return '';
        return args[2] === '3' ? 0 : ['waiting', '1', '0', '1800000000000000', '30000', '1', '0'];
      },
      subscribe: async (channel: string, hear: (payload: string) => void) => {
        resolve({ id: channel.slice('leasehold:'.length), hear });
        return () => {};
      },
    };
    const locks = new LockManager(connection as never);
    const waits = typed(() => locks.mutex('a').acquire({ wait: 'forever' }));
    const { id, hear } = await subscribed;
    for (const text of payloads) hear(typeof text === 'string' ? text.replaceAll('$own', id) : (text as string));
    await time.until(locks.close(), STEP);
    await waits;
  }), runs(100));
});

test('any_options_are_taken_or_refused_with_their_name', async () => {
  const refused = { call: async () => Promise.reject(new Error('ERR enough')) };
  await fc.assert(fc.asyncProperty(options, mostly(fc.string({ minLength: 1 }), anything), async (given, name) => {
    const locks = new LockManager(refused);
    try {
      const lock = locks.mutex(name as string, given as LockOptions);
      await typed(() => lock.tryAcquire());
    } catch (error) {
      assertTyped(error);
      assert.ok(isLeaseholdError(error, 'invalid-option') && ['name', 'options', ...Object.keys(given)].includes(error.field), String(error));
    }
    await locks.close();
  }), runs(500));
});
