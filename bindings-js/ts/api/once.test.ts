import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { LOCK_DEFAULTS } from '../support/options.generated.js';
import { caught } from '../testing/expect.js';
import { readOnceOptions } from './options.js';

function managers(count: number): LockManager[] {
  const server = new MemoryServer();
  return Array.from({ length: count }, () => new LockManager(server));
}

async function rejects(promise: Promise<unknown>, code: string, field?: string): Promise<void> {
  const error = (await caught(promise)) as { code?: string; field?: string };
  assert.deepEqual([error.code, error.field], [code, field], String(error));
}

test('twenty_callers_of_four_managers_do_the_work_once_and_get_the_same_result', async () => {
  const all = managers(4);
  let runs = 0;
  const work = async (): Promise<unknown> => {
    runs += 1;
    await sleep(50);
    return { at: new Date(0), none: undefined, list: [1, 'ä'] };
  };
  const results = await Promise.all(Array.from({ length: 20 }, (_, at) => (all[at % 4] as LockManager).once('report', work, { keep: '1h' })));
  assert.equal(runs, 1);
  for (const result of results) assert.deepEqual(result, { at: '1970-01-01T00:00:00.000Z', list: [1, 'ä'] });
  assert.deepEqual(await (all[0] as LockManager).once('report', () => assert.fail('it is done'), { keep: '1h' }), results[0]);
  for (const locks of all) await locks.close();
});

test('work_that_fails_stores_nothing_and_a_result_can_be_forgotten', async () => {
  const [locks] = managers(1) as [LockManager];
  const failure = new Error('no paper');
  assert.equal(await caught(locks.once('job', () => Promise.reject(failure), { keep: '1h' })), failure);
  assert.equal(await locks.once('job', () => undefined, { keep: '1h' }), null);
  assert.equal(await locks.forget('job'), true);
  assert.equal(await locks.forget('job'), false);
  assert.equal(await locks.once('job', (lease) => lease.fence > 0, { keep: '1h' }), true);
  await locks.close();
});

test('a_result_that_is_no_json_or_too_long_is_refused_and_the_lock_is_free', async () => {
  const [locks] = managers(1) as [LockManager];
  const circle: { self?: unknown } = {};
  circle.self = circle;
  for (const value of [circle, () => 1, 1n, 'x'.repeat(65_535)]) {
    await rejects(locks.once('job', () => value, { keep: '1h' }), 'invalid-option', 'result');
  }
  assert.equal(await locks.once('job', () => 'x'.repeat(65_534), { keep: '1h' }), 'x'.repeat(65_534));
  await locks.close();
});

test('a_caller_that_does_not_wait_is_busy_and_bad_options_are_refused_before_the_work', async () => {
  const [locks, others] = managers(2) as [LockManager, LockManager];
  const never = (): never => assert.fail('it ran');
  await locks.once('job', async () => {
    await rejects(others.once('job', never, { keep: '1h', wait: 0 }), 'busy');
    await rejects(locks.once('job', never, { keep: '1h', wait: 10 }), 'busy');
    assert.equal(await caught(others.once('job', never, { keep: '1h', signal: AbortSignal.abort('enough') })), 'enough');
  }, { keep: '1h' });
  for (const keep of [999, '367d', 'soon']) {
    await rejects(locks.once('other', never, { keep } as never), 'invalid-option', 'keep');
  }
  await rejects(locks.once('other', 7 as never, { keep: '1h' }), 'invalid-option', 'work');
  assert.equal(readOnceOptions({}, LOCK_DEFAULTS).keep, 24 * 3_600_000);
  assert.equal(await locks.once('without', () => 1, {}), 1);
  await locks.close();
  await others.close();
});

test('a_caller_is_refused_at_once_if_so_many_wait_for_the_result', async () => {
  const [locks, others] = managers(2) as [LockManager, LockManager];
  const never = (): never => assert.fail('it ran');
  let waits: Promise<number> | undefined;
  await locks.once('job', async () => {
    waits = others.once('job', never, { keep: '1h', maxWaiters: 1 });
    while ((await locks.inspect('job')).waiting === 0) await sleep(1);
    const refused = (await caught(others.once('job', never, { keep: '1h', maxWaiters: 1 }))) as { code?: string; waiters?: number };
    assert.deepEqual([refused.code, refused.waiters], ['busy', 1]);
    return 7;
  }, { keep: '1h' });
  assert.deepEqual([await waits, await others.once('job', never, { keep: '1h', maxWaiters: 0 })], [7, 7]);
  for (const manager of [locks, others]) await manager.close();
});

test('work_whose_lease_is_taken_stores_nothing', async () => {
  const [locks, others] = managers(2) as [LockManager, LockManager];
  const lost = locks.once('job', async (lease) => {
    await others.forceRelease('job');
    // Only a timer keeps the process alive.
    while (lease.isHeld) await sleep(5);
    return 1;
  }, { keep: '1h', ttl: 300 });
  await rejects(lost, 'lost');
  assert.equal(await others.once('job', () => 2, { keep: '1h' }), 2);
  await locks.close();
  await others.close();
});

test('events_tell_who_found_a_result_and_once_still_adds_a_listener', async () => {
  const [locks] = managers(1) as [LockManager];
  const codes: string[] = [];
  locks.on('acquire', ({ mode, code }) => codes.push(`${mode} ${code}`));
  locks.once('release', ({ code }) => codes.push(code));
  for (const _ of [1, 2]) await locks.once('job', () => 1, { keep: '1h' });
  await locks.close();
  assert.deepEqual(codes, ['once granted', 'released', 'once stored']);
});
