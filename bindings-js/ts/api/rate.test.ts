/** Tests semaphores with a rate: at most so many starts in each window, in order, and nothing is held. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

const codeOf = async (promise: Promise<unknown>): Promise<string | undefined> => ((await caught(promise)) as { code?: string }).code;

test('no_window_has_more_starts_than_the_limit_and_they_come_in_order', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const starts: { call: number; at: number; fence: number }[] = [];
  const calls: Promise<void>[] = [];
  for (let call = 0; call < 10; call++) {
    const locks = new LockManager(server);
    calls.push(locks.semaphore('api', { limit: 3, per: '2s' }).run(({ fence }) => void starts.push({ call, at: time.now, fence })));
    await time.pass(100);
  }
  await time.until(Promise.all(calls));
  assert.deepEqual(starts.map(({ call }) => call), starts.map((_, call) => call));
  for (const [index, { at, fence }] of starts.entries()) {
    const before = starts[index - 3];
    if (before) assert.ok(at - before.at >= 2_000 && fence - before.fence >= 2_000_000, `${index}: ${at - before.at} ms`);
  }
  assert.ok(time.now < 6_300, 'each starts as soon as it may');
});

test('work_may_take_longer_than_the_window_and_nothing_is_held', async (t) => {
  const [time, locks] = [new VirtualTime(t), new LockManager(new MemoryServer())];
  const api = locks.semaphore('api', { limit: 1, per: '1s' });
  const work = api.run(async (lease) => {
    await time.pass(60_000);
    assert.ok(!lease.signal.aborted && !lease.isHeld && !(await lease.verify()));
    assert.equal(await codeOf(lease.extend('1m')), 'not-held');
    assert.throws(() => lease.token(), { code: 'not-held' });
    return 'done';
  });
  assert.equal(await work, 'done');
  const lease = await api.acquire();
  assert.deepEqual([lease.ttl, (await locks.query()).held, JSON.parse(JSON.stringify(lease)).ended], [1_000, [], 'detached']);
  assert.equal(await lease.release(), 'detached');
  assert.equal(await api.tryAcquire(), null, 'a release gives nothing back');
  await time.pass(1_010);
  assert.ok(await api.tryAcquire());
  assert.deepEqual(await locks.close(), { lost: 0, unreleased: 0 });
  assert.ok(!lease.signal.aborted);
});

test('the_lease_of_a_rate_ends_with_its_grant_for_those_who_listen', async () => {
  const locks = new LockManager(new MemoryServer());
  const events: unknown[] = [];
  locks.on('acquire', (event) => events.push([event.code, 'lease' in event ? event.lease : undefined]));
  locks.on('release', ({ code, lease }) => events.push([code, lease]));
  await locks.semaphore('api', { limit: 1, per: '1s' }).acquire();
  await locks.close();
  const [[, lease] = []] = events as [string, number][];
  assert.ok(lease !== undefined);
  assert.deepEqual(events, [['granted', lease], ['detached', lease]]);
});

test('on_a_real_server_the_fences_of_all_grants_show_that_no_window_had_more_than_the_limit', async () => {
  const [name, limit, per] = [unique('api'), 4, 250];
  const managers = [fleet.manager(), fleet.manager(), fleet.manager()];
  const start = async (call: number): Promise<[number, number]> => {
    const permits = 1 + (call % 3);
    const locks = managers[call % 3] as LockManager;
    return [(await locks.semaphore(name, { limit, permits, per, wait: 'forever' }).acquire()).fence, permits];
  };
  const starts = await Promise.all(Array.from({ length: 24 }, (_, call) => start(call)));
  for (const [from] of starts) {
    // A fence is the server's time of the grant in microseconds, and at most a millisecond ahead of it.
    const inWindow = starts.filter(([fence]) => fence >= from && fence < from + per * 1_000 - 1_000);
    assert.ok(inWindow.reduce((sum, [, permits]) => sum + permits, 0) <= limit, `${inWindow}`);
  }
});

test('a_caller_that_gives_up_before_its_grant_takes_nothing', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [locks, other] = [new LockManager(server), new LockManager(server)];
  const rate = { limit: 1, per: 1_000 };
  await locks.semaphore('api', rate).acquire();
  const controller = new AbortController();
  const givesUp = caught(locks.semaphore('api', rate).acquire({ signal: controller.signal }));
  await time.pass(100);
  const waits = other.semaphore('api', rate).acquire();
  await time.pass(100);
  controller.abort(new Error('enough'));
  assert.equal(((await givesUp) as Error).message, 'enough');
  assert.ok((await time.until(waits)) <= 830);
});

test('another_window_is_another_kind_and_options_of_a_lease_are_refused', async () => {
  const [locks, name] = [fleet.manager(), unique('api')];
  await locks.semaphore(name, { limit: 2, per: '1m' }).acquire();
  for (const per of [undefined, '2m'] as const) {
    assert.equal(await codeOf(locks.semaphore(name, { limit: 2, per }).tryAcquire()), 'wrong-kind');
  }
  const rate = { limit: 2, per: '1m' } as const;
  assert.equal(await codeOf(locks.semaphore(name, { ...rate, atLeast: '1m' }).acquire()), 'unsupported');
  assert.equal(await codeOf(locks.semaphore(name, rate).adopt('00000001-0000-4000-8000-00000000000f:1')), 'unsupported');
  for (const per of [9, '31 days', 0, null]) {
    assert.throws(() => locks.semaphore(name, { limit: 2, per: per as number }), { code: 'invalid-option', field: 'per' });
  }
  const seen = await locks.inspect(name);
  assert.deepEqual([seen.limit, seen.per, seen.holders.length], [2, 60_000, 1]);
  assert.ok((seen.lastFence ?? 0) > 0);
  assert.equal(await locks.forceRelease(name), 1);
  assert.ok(await locks.semaphore(name, { limit: 2 }).tryAcquire(), 'force gives all permits back');
});

test('a_busy_rate_says_when_permits_come_back_and_names_no_holder', async (t) => {
  const time = new VirtualTime(t);
  const server = new MemoryServer();
  for (const locks of [new LockManager(server), new LockManager(server)]) {
    const api = locks.semaphore('api', { limit: 1, per: '1m', wait: '2s' });
    await api.tryAcquire();
    const error = await time.result(caught(api.acquire()));
    assert.ok(isLeaseholdError(error, 'busy') && error.holder === undefined);
    assert.match(error.message, /^lock `api`: busy after 2 s; permits come back in \d+ s$/);
  }
});
