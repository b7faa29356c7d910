/** A manager on a real server keeps working while a test has fake timers, and after the test has removed them. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { Mutex } from '../dropins/redis-semaphore.js';
import { HOST } from '../support/timers.js';
import { until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { turns } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

/** Replaces all timers, as a user's test does. They stand still. */
function fakeTimers(t: TestContext): void {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'setImmediate', 'Date'] });
}

/** The promise's result. Fails, instead of waiting forever, if it is not settled in a time that is long enough for a busy machine. */
async function inTime<T>(promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = (): void => void (isSettled = true);
  promise.then(settled, settled);
  await until(async () => isSettled);
  return promise;
}

test('calls_under_fake_timers_are_answered_by_a_real_server_and_later_calls_too', async (t) => {
  const [locks, name] = [fleet.manager(), unique()];
  await (await locks.mutex(name).acquire()).release();
  fakeTimers(t);
  const lease = await inTime(locks.mutex(name).acquire());
  assert.equal((await inTime(locks.query())).held.length, 1);
  await inTime(lease.extend('2m'));
  assert.equal(await inTime(lease.release()), 'released');
  t.mock.timers.reset();
  assert.equal(await inTime(locks.mutex(name).run(() => 'done')), 'done');
});

test('callers_of_one_manager_take_turns_under_fake_timers', async (t) => {
  const lock = fleet.manager().mutex(unique());
  await (await lock.acquire()).release();
  fakeTimers(t);
  let count = 0;
  const work = async (): Promise<void> => {
    while (count < 3_000) await lock.run(() => void count++);
  };
  await inTime(Promise.all([work(), work(), work()]));
});

test('a_wait_and_a_lease_on_a_real_server_end_under_fake_timers', async (t) => {
  const [locks, other, name] = [fleet.manager(), fleet.manager(), unique()];
  await Promise.all([locks, other].map((manager) => manager.inspect(name)));
  fakeTimers(t);
  const lease = await inTime(locks.mutex(name).acquire({ ttl: 500, renew: false }));
  await assert.rejects(inTime(locks.mutex(name).acquire({ wait: 20 })), { code: 'busy' });
  assert.equal(await inTime(lease.lost), 'expired');
  await assert.rejects(inTime(locks.mutex(name).run((lost) => lost.lost, { ttl: 100, renew: false })), { code: 'lost' });
  assert.ok(await inTime(other.mutex(name).acquire()));
});

test('a_lock_of_a_drop_in_is_refreshed_under_fake_timers', async (t) => {
  const name = unique();
  const mutex = new Mutex(fleet.client() as never, name, { lockTimeout: 60_000, refreshInterval: 200 });
  await mutex.acquire();
  await mutex.release();
  fakeTimers(t);
  await inTime(mutex.acquire());
  let [last, refreshed] = [Infinity, 0];
  await until(async () => {
    const ttl = await fleet.redis.pttl(`mutex:${name}`);
    if (ttl > last) refreshed++;
    last = ttl;
    return refreshed >= 2;
  });
  await inTime(mutex.release());
});

test('a_callback_that_the_host_loses_does_not_stop_the_engine', async (t) => {
  const locks = fleet.manager();
  const held = await locks.mutex(unique()).acquire();
  // Something is in flight, so the next call waits for the end of the turn.
  const first = locks.mutex(unique()).acquire();
  await new Promise<void>((resolve) => process.nextTick(resolve));
  const lost = t.mock.method(HOST, 'setImmediate', () => {});
  const acquired = locks.mutex(unique()).acquire();
  const listed = locks.query();
  await turns();
  assert.ok(lost.mock.callCount() > 0);
  lost.mock.restore();
  assert.equal((await inTime(listed)).held.length, 3);
  for (const lease of await inTime(Promise.all([first, acquired]))) await inTime(lease.release());
  await inTime(held.release());
});

test('hand_overs_go_on_after_the_host_has_lost_a_callback', async (t) => {
  const lock = fleet.manager().mutex(unique());
  await (await lock.acquire()).release();
  const { setImmediate: turn } = HOST;
  let lost = 0;
  // Only the first callback of each kind is lost.
  const seen = new Set<unknown>();
  t.mock.method(HOST, 'setImmediate', (run: () => void) => {
    if (seen.has(run)) return turn(run);
    seen.add(run);
    lost++;
  });
  let count = 0;
  const work = async (): Promise<void> => {
    while (count < 3_000) await lock.run(() => void count++);
  };
  await inTime(Promise.all([work(), work(), work()]));
  assert.ok(lost > 1);
});
