/** How a holder is notified of a loss, and what happens to calls when the server is gone. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';

test('a_deleted_key_is_told_by_the_next_renewal', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const name = unique();
  const lease = await fleet.manager().mutex(name, { ttl: 600 }).acquire();
  const { signal, lost } = lease;
  assert.equal(lease.signal, signal);
  let aborted = 0;
  signal.addEventListener('abort', () => aborted++);
  await fleet.redis.del(name);
  assert.equal(await lost, 'gone');
  assert.equal(await lease.lost, 'gone');
  assert.ok(isLeaseholdError(signal.reason, 'lost') && signal.reason.reason === 'gone' && signal.reason.lockName === name);
  assert.ok(!lease.isHeld && lease.remaining === 0 && aborted === 1);
  assert.equal(await lease.release(), 'already-expired');
});

test('a_key_that_somebody_else_took_is_not_ours_any_more', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const name = unique();
  const lease = await fleet.manager().mutex(name).acquire();
  const nested = lease.nested();
  await fleet.redis.set(name, 'theirs', 'PX', 5_000);
  assert.equal(await lease.verify(), false);
  assert.equal(await lease.lost, 'taken');
  assert.equal(await nested.lost, 'taken');
  for (const call of [lease.extend('1s'), lease.downgrade(), lease.upgrade()]) {
    assert.ok(isLeaseholdError(await caught(call), 'not-held'));
  }
  assert.throws(() => lease.nested(), { code: 'not-held' });
  assert.equal(await lease.release(), 'not-owner');
  assert.equal(await nested.release(), 'not-owner');
  assert.equal(await fleet.redis.get(name), 'theirs');
});

test('a_signal_and_a_promise_asked_for_after_the_loss_tell_it_too', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const lease = await fleet.manager().mutex(unique(), { ttl: 50, renew: false }).acquire();
  await until(async () => !lease.isHeld);
  assert.equal(await lease.lost, 'expired');
  assert.ok(lease.signal.aborted && isLeaseholdError(lease.signal.reason, 'lost'));
});

test('a_dead_server_is_told_before_the_lease_ends_on_it', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const lease = await fleet.manager().mutex(unique(), { ttl: 800 }).acquire();
  const until = performance.now() + lease.remaining;
  await fleet.server.kill();
  assert.equal(await lease.lost, 'expired');
  assert.ok(performance.now() < until + 1_500);
  assert.ok(lease.signal.aborted);
  assert.equal(await lease.release(), 'already-expired');
});

test('a_dead_server_is_unreachable_and_not_busy_and_the_cause_is_kept', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const [locks, name] = [fleet.manager(), unique()];
  await (await locks.mutex(name).acquire()).release();
  await fleet.server.kill();
  const calls = [locks.mutex(name).acquire({ wait: 1_500 }), locks.mutex(unique()).tryAcquire(), locks.inspect(name)];
  const errors = await Promise.all(calls.map(caught));
  for (const error of errors) {
    assert.ok(isLeaseholdError(error, 'unreachable') && error.retryable && error.waited >= 450, String(error));
    assert.match(error.message, /^lock `.*`: 127\.0\.0\.1:\d+ was not available within .* m?s: ./);
  }
  assert.ok((errors[0] as Error).cause instanceof Error);
});

test('a_wait_goes_on_over_a_restart_of_the_server', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await locks.mutex(name, { ttl: 600 }).acquire();
  const waiting = others.mutex(name).acquire();
  await fleet.waiting(name, 1);
  await fleet.server.restart();
  assert.ok(['gone', 'taken', 'expired'].includes(await lease.lost));
  const granted = await waiting;
  assert.ok(granted.fence > lease.fence);
  await granted.release();
});

test('a_paused_server_keeps_nobody_waiting_for_ever', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const locks = fleet.manager();
  const lease = await locks.mutex(unique(), { ttl: '5s' }).acquire();
  fleet.server.pause();
  try {
    const started = performance.now();
    const errors = await Promise.all([caught(lease.extend('10s')), caught(lease.verify()), caught(locks.inspect('any')), caught(locks.mutex('other').acquire({ wait: 400 }))]);
    for (const error of errors) assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
    assert.ok(isLeaseholdError(await caught(lease.release()), 'unreachable'));
    await locks.close();
    assert.ok(performance.now() - started < 6_000);
  } finally {
    fleet.server.resume();
  }
});

test('listeners_that_throw_are_the_users_own_and_stop_nothing', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const locks = fleet.manager();
  const [first, second] = [await locks.mutex(unique(), { ttl: 900 }).acquire(), await locks.mutex(unique(), { ttl: 900 }).acquire()];
  const thrown = new Promise((resolve) => {
    const [before] = [process.listeners('uncaughtException')];
    process.removeAllListeners('uncaughtException');
    process.once('uncaughtException', (error) => {
      for (const listener of before) process.on('uncaughtException', listener);
      resolve(error.message);
    });
  });
  first.signal.addEventListener('abort', () => {
    throw new Error('a listener of the user');
  });
  await fleet.redis.del(first.name, second.name);
  assert.equal(await thrown, 'a listener of the user');
  assert.equal(await second.lost, 'gone');
  const third = await locks.mutex(unique()).acquire();
  await third.release();
});

test('a_lease_that_close_could_not_give_back_is_not_called_released', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const locks = fleet.manager();
  const lease = await locks.mutex(unique()).acquire();
  fleet.server.pause();
  try {
    await locks.close();
    assert.ok(isLeaseholdError(await caught(lease.release()), 'unreachable'));
  } finally {
    fleet.server.resume();
  }
});

test('a_release_beside_close_that_nobody_confirmed_is_not_called_released', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const { redis, server } = fleet;
  const faults = {
    unreachable: [async () => server.pause(), async () => server.resume()],
    auth: [() => redis.acl('SETUSER', 'default', '-evalsha', '-eval'), () => redis.acl('SETUSER', 'default', '+@all')],
  } as const;
  for (const [code, [breaks, mends]] of Object.entries(faults)) {
    for (const order of ['release first', 'close first']) {
      // Its leases end on the server before the manager gives up.
      const locks = fleet.manager({ ttl: 1_000, responseTimeout: 1_500 });
      const lease = await locks.mutex(unique()).acquire();
      await breaks();
      try {
        const closing = order === 'close first' && locks.close();
        const releasing = caught(lease.release());
        await (closing || locks.close());
        const error = await releasing;
        assert.ok(isLeaseholdError(error) && error.code === code && error.lockName === lease.name, `${order}: ${String(error)}`);
      } finally {
        await mends();
      }
    }
  }
});
