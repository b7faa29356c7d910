/** Tests work under a lock, and what ends a wait. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { isLeaseholdError, type Lease, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

test('run_holds_the_lock_for_the_work_and_gives_its_answer', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const answer = await locks.mutex(name).run(async (lease) => {
    assert.ok(lease.isHeld && (await fleet.isThere(name)));
    return lease.fence;
  });
  assert.ok(answer > 0);
  assert.ok(!(await fleet.isThere(name)));
  assert.equal(await locks.mutex(name).run(() => 'not even a promise'), 'not even a promise');
});

test('run_rethrows_the_works_own_error_and_releases', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const mine = new Error('mine');
  assert.equal(await caught(locks.mutex(name).run(async () => Promise.reject(mine))), mine);
  assert.equal(await caught(locks.mutex(name).run(() => { throw mine; })), mine);
  assert.equal(await caught(locks.mutex(name).run(() => Promise.reject(undefined))), undefined);
  assert.ok(!(await fleet.isThere(name)));
});

test('run_aborts_the_signal_and_rejects_with_the_loss_when_the_lease_is_lost', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  let seen: unknown;
  const error = await caught(locks.mutex(name).run(async (lease) => {
    const { signal } = lease;
    signal.addEventListener('abort', () => (seen = signal.reason));
    await fleet.redis.del(name);
    void lease.verify();
    await new Promise(() => {});
  }));
  assert.ok(isLeaseholdError(error, 'lost') && error.reason === 'gone' && error.lockName === name, String(error));
  assert.equal(seen, error);
});

test('work_that_heeds_the_signal_ends_with_its_own_error', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const mine = new Error('stopped at a safe point');
  const error = await caught(locks.mutex(name).run(async (lease) => {
    await fleet.redis.del(name);
    void lease.verify();
    await lease.lost;
    throw mine;
  }));
  assert.equal(error, mine);
});

test('work_that_only_reports_the_abort_of_its_signal_rejects_with_the_loss_and_keeps_the_works_error', async () => {
  const waits: [string, (signal: AbortSignal) => Promise<unknown>][] = [
    ['a timer of Node', (signal) => sleep(HOUR, undefined, { signal })],
    ['an event', (signal) => once(new EventTarget(), 'never', { signal })],
    ['an error without a cause', (signal) => aborted(signal).then(() => Promise.reject(new DOMException('stopped', 'AbortError')))],
    ['an error of axios', (signal) => aborted(signal).then(() => Promise.reject(Object.assign(new Error('canceled'), { name: 'CanceledError' })))],
    ['a wrapped error', (signal) => sleep(HOUR, undefined, { signal }).catch((cause: unknown) => Promise.reject(new Error('not saved', { cause })))],
  ];
  for (const [what, wait] of waits) {
    let mine: unknown;
    const error = await caught(fleet.manager().mutex(unique()).run((lease) => {
      loseSoon(lease);
      return wait(lease.signal).catch((error: unknown) => {
        mine = error;
        throw error;
      });
    }));
    assert.ok(isLeaseholdError(error, 'lost') && error.reason === 'gone', `${what}: ${String(error)}`);
    assert.ok(mine !== undefined && error.cause === mine, what);
  }
});

test('work_that_throws_the_signals_reason_rejects_with_it', async () => {
  let reason: unknown;
  const error = await caught(fleet.manager().mutex(unique()).run(async (lease) => {
    loseSoon(lease);
    await aborted(lease.signal);
    reason = lease.signal.reason;
    lease.signal.throwIfAborted();
  }));
  assert.ok(isLeaseholdError(error, 'lost'));
  assert.equal(error, reason);
});

test('work_that_a_close_interrupts_rejects_with_closed_and_keeps_the_works_error', async () => {
  const locks = fleet.manager();
  const error = await caught(locks.mutex(unique()).run((lease) => {
    void locks.close();
    return sleep(HOUR, undefined, { signal: lease.signal });
  }));
  assert.ok(isLeaseholdError(error, 'closed') && (error.cause as Error).name === 'AbortError', String(error));
});

test('an_abort_of_another_signal_is_the_works_own_error_although_the_lease_was_lost', async () => {
  const own = AbortSignal.abort(new Error('the client has left'));
  const error = await caught(fleet.manager().mutex(unique()).run(async (lease) => {
    loseSoon(lease);
    await aborted(lease.signal);
    await sleep(HOUR, undefined, { signal: own });
  }));
  assert.ok((error as Error).name === 'AbortError' && (error as Error).cause === own.reason, String(error));
});

test('an_abort_without_a_loss_is_the_works_own_error', async () => {
  const mine = new DOMException('stopped', 'AbortError');
  assert.equal(await caught(fleet.manager().mutex(unique()).run(() => Promise.reject(mine))), mine);
});

test('run_is_no_success_when_the_lease_ended_before_the_work', async () => {
  const server = new MemoryServer();
  const error = await caught(new LockManager(server).mutex(unique(), { ttl: '5m', renew: false }).run(() => server.clock.advance('5m')));
  assert.ok(isLeaseholdError(error, 'lost') && error.reason === 'expired', String(error));
});

test('work_that_never_ends_is_left_behind_when_the_lease_is_over', async (t) => {
  const time = new VirtualTime(t);
  const running = caught(new LockManager(new MemoryServer()).mutex(unique(), { ttl: '30s', maxHold: '40s' }).run(() => new Promise(() => {})));
  await time.until(running, 100);
  const error = await running;
  assert.ok(isLeaseholdError(error, 'lost') && error.reason === 'max-hold', String(error));
});

test('work_that_fails_after_it_was_left_behind_disturbs_nobody', async () => {
  let fail = (_: Error): void => {};
  await caught(fleet.manager().mutex(unique()).run(async (lease) => {
    await fleet.redis.del(lease.name);
    void lease.verify();
    return new Promise((_, reject) => (fail = reject));
  }));
  fail(new Error('nobody listens'));
  // An unhandled rejection would fail the test.
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
});

test('closing_the_manager_interrupts_the_work', async () => {
  const locks = fleet.manager();
  let lease: Lease | undefined;
  const running = caught(locks.mutex(unique()).run((held) => {
    lease = held;
    return new Promise(() => {});
  }));
  await until(async () => lease !== undefined);
  await locks.close();
  assert.ok(isLeaseholdError(await running, 'closed'));
});

test('a_lease_that_the_work_released_itself_was_held_long_enough', async () => {
  const done = fleet.manager().mutex(unique()).run(async (lease) => {
    await lease.release();
    return 'done';
  });
  assert.equal(await done, 'done');
});

test('an_aborted_signal_refuses_at_once_and_sends_nothing', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const reason = { any: 'value' };
  assert.equal(await caught(locks.mutex(name).acquire({ signal: AbortSignal.abort(reason) })), reason);
  assert.equal(await caught(locks.mutex(name).tryAcquire({ signal: AbortSignal.abort(reason) })), reason);
  assert.equal(await caught(locks.mutex(name).run(() => assert.fail(), { signal: AbortSignal.abort(reason) })), reason);
  assert.equal(await fleet.redis.exists(name, `leasehold:{${name}}:queue`), 0);
});

test('a_signal_ends_a_wait_and_leaves_no_waiter_behind', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  const controller = new AbortController();
  const waiting = [caught(others.mutex(name).acquire({ signal: controller.signal })), caught(locks.mutex(name).acquire({ signal: controller.signal }))];
  await fleet.waiting(name, 1);
  controller.abort(new Error('changed my mind'));
  for (const error of await Promise.all(waiting)) assert.equal(error, controller.signal.reason);
  await fleet.waiting(name, 0);
  assert.ok(lease.isHeld);
  await lease.release();
});

test('a_reason_that_is_null_is_a_reason_and_a_wrapper_without_one_is_cancelled', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const told: unknown[] = [];
  others.on('acquire', (event) => told.push(event.code !== 'granted' && [event.code, event.error]));
  await using(await locks.mutex(name).acquire(), async () => {
    for (const reason of [null, 0, '', false]) {
      const controller = new AbortController();
      const waiting = caught(others.mutex(name).acquire({ signal: controller.signal }));
      await fleet.waiting(name, 1);
      controller.abort(reason);
      assert.equal(await waiting, reason);
      assert.deepEqual(told.pop(), ['cancelled', reason]);
      assert.equal(await caught(others.mutex(name).acquire({ signal: controller.signal })), reason);
      assert.deepEqual(told.pop(), ['cancelled', reason]);
    }
    const { signal } = wrapped();
    const without = { aborted: true, addEventListener: signal.addEventListener, removeEventListener: signal.removeEventListener };
    assert.ok(isLeaseholdError(await caught(others.mutex(name).acquire({ signal: without as AbortSignal })), 'cancelled'));
  });
});

test('a_timeout_signal_rejects_with_its_own_error', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await using(await locks.mutex(name).acquire(), async () => {
    const error = await caught(fleet.manager().mutex(name).acquire({ signal: AbortSignal.timeout(50) }));
    assert.equal((error as Error).name, 'TimeoutError');
  });
});

test('a_signal_that_aborts_after_the_grant_changes_nothing', async () => {
  const controller = new AbortController();
  const lease = await fleet.manager().mutex(unique()).acquire({ signal: controller.signal });
  controller.abort();
  assert.ok(lease.isHeld && !lease.signal.aborted && (await lease.verify()));
  await lease.release();
});

test('one_signal_for_many_calls_keeps_no_listeners', async () => {
  const lock = fleet.manager().mutex(unique());
  const warnings: string[] = [];
  const warned = (warning: Error): unknown => warnings.push(String(warning));
  process.on('warning', warned);
  const { signal } = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...args: unknown[]) => (listeners++, Reflect.apply(addEventListener, signal, args));
  signal.removeEventListener = (...args: unknown[]) => (listeners--, Reflect.apply(removeEventListener, signal, args));
  await Promise.all(Array.from({ length: 100 }, () => lock.run(() => {}, { signal })));
  await new Promise(setImmediate);
  process.off('warning', warned);
  assert.equal(listeners, 0);
  assert.deepEqual(warnings, []);
});

test('what_only_wraps_a_signal_ends_a_wait_as_well', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await using(await locks.mutex(name).acquire(), async () => {
    const { signal, abort } = wrapped();
    const waiting = caught(fleet.manager().mutex(name).acquire({ signal }));
    await fleet.waiting(name, 1);
    abort(new Error('changed my mind'));
    assert.equal(((await waiting) as Error).message, 'changed my mind');
  });
});

test('a_signal_whose_methods_throw_costs_nobody_a_lock', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const fail = (): never => {
    throw new Error('no real signal');
  };
  const other = await locks.mutex(unique()).acquire();
  const deaf = { ...wrapped().signal, addEventListener: fail };
  for (let i = 0; i < 2; i++) {
    const error = await caught(locks.mutex(name).acquire({ signal: deaf }));
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'signal', String(error));
  }
  const clinging = { ...wrapped().signal, removeEventListener: fail };
  const lease = await locks.mutex(name).acquire({ signal: clinging });
  assert.equal(await lease.release(), 'released');
  assert.ok(other.isHeld);
});

const HOUR = 3_600_000;

/** Deletes the lease's key, and lets the client notice. */
function loseSoon(lease: Lease): void {
  void fleet.redis.del(lease.name).then(() => lease.verify());
}

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/** An object that some libraries pass instead of a signal. */
function wrapped(): { signal: AbortSignal; abort: (reason: unknown) => void } {
  const controller = new AbortController();
  const real = controller.signal;
  const wrapper = {
    get aborted() {
      return real.aborted;
    },
    get reason() {
      return real.reason;
    },
    addEventListener: real.addEventListener.bind(real),
    removeEventListener: real.removeEventListener.bind(real),
  };
  return { signal: wrapper as unknown as AbortSignal, abort: (reason) => controller.abort(reason) };
}

async function using(lease: Lease, work: () => Promise<void>): Promise<void> {
  await work().finally(() => lease.release());
}
