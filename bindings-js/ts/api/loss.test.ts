/** How a holder is notified of a loss, and what happens to calls when the server is gone. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type Lease, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

test('a_deleted_key_is_told_by_the_next_renewal', async (t) => {
  const [time, server, name] = [new VirtualTime(t), new MemoryServer(), unique()];
  const lease = await new LockManager(server).mutex(name, { ttl: '30s' }).acquire();
  const { signal, lost } = lease;
  assert.equal(lease.signal, signal);
  let aborted = 0;
  signal.addEventListener('abort', () => aborted++);
  assert.ok(server.expire(name));
  assert.ok((await time.until(lost, 100)) <= 10_100);
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

test('a_key_that_is_gone_on_a_real_server_is_told_by_the_next_call', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const lease = await fleet.manager().mutex(unique()).acquire();
  await fleet.redis.del(lease.name);
  assert.equal(await lease.verify(), false);
  assert.equal(await lease.lost, 'gone');
});

test('a_signal_and_a_promise_asked_for_after_the_loss_tell_it_too', async (t) => {
  const time = new VirtualTime(t);
  const lease = await new LockManager(new MemoryServer()).mutex(unique(), { ttl: 50, renew: false }).acquire();
  await time.pass(50);
  assert.ok(!lease.isHeld);
  assert.equal(await lease.lost, 'expired');
  assert.ok(lease.signal.aborted && isLeaseholdError(lease.signal.reason, 'lost'));
});

test('a_release_that_tells_a_listener_of_another_lease_is_one_release_though_the_listener_asks_for_it_too', async (t) => {
  const [time, locks] = [new VirtualTime(t), new LockManager(new MemoryServer())];
  const lease = await locks.mutex(unique()).acquire();
  const nested = lease.nested();
  const other = await locks.mutex(unique()).acquire({ ttl: 50, renew: false });
  const again: Promise<unknown>[] = [];
  other.signal.addEventListener('abort', () => again.push(nested.release()));
  time.takes(50);
  assert.equal(await nested.release(), 'still-held');
  assert.deepEqual(await Promise.all(again), ['still-held']);
  assert.ok(lease.isHeld && lease.holdCount === 1);
});

test('a_dead_server_is_told_before_the_lease_ends_on_it', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const lease = await new LockManager(server).mutex(unique(), { ttl: '30s' }).acquire();
  server.stop();
  const told = await time.until(lease.lost);
  assert.equal(await lease.lost, 'expired');
  assert.ok(told > 25_000 && told <= 29_950, `${told} ms`);
  assert.ok(lease.signal.aborted);
  assert.equal(await lease.release(), 'already-expired');
});

test('a_dead_server_is_unreachable_and_not_busy_and_the_cause_is_kept', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const [locks, name] = [fleet.manager(), unique()];
  await (await locks.mutex(name).acquire()).release();
  await fleet.server.kill();
  const calls = [locks.mutex(name).acquire({ wait: 1_500 }), locks.mutex(unique()).tryAcquire({ wait: 500 })];
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
  const lease = await locks.mutex(name).acquire();
  const waiting = others.mutex(name).acquire();
  await fleet.waiting(name, 1);
  await fleet.server.restart();
  const granted = await waiting;
  assert.equal(await lease.verify(), false);
  assert.ok(['gone', 'taken'].includes(await lease.lost));
  assert.ok(granted.fence > lease.fence);
  await granted.release();
});

test('a_silent_server_keeps_nobody_waiting_longer_than_the_response_timeout', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server, { responseTimeout: '2s' });
  const lease = await locks.mutex(unique()).acquire();
  server.delay('10m');
  const calls: [() => Promise<unknown>, number][] = [
    [() => lease.extend('40s'), 2_000], [() => lease.verify(), 2_000], [() => locks.inspect('any'), 2_000],
    [() => locks.mutex('other').acquire({ wait: 400 }), 400], [() => lease.release(), 2_000],
  ];
  for (const [call, limit] of calls) {
    const answered = caught(call());
    const took = await time.until(answered);
    const error = await answered;
    assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
    assert.ok(took <= limit, `${call}: ${took} ms`);
  }
  assert.ok((await time.until(locks.close())) <= 2_000);
});

test('listeners_that_throw_are_the_users_own_and_stop_nothing', async (t) => {
  const fleet = await Fleet.start((end) => t.after(end));
  const locks = fleet.manager();
  const [first, second] = [await locks.mutex(unique()).acquire(), await locks.mutex(unique()).acquire()];
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
  assert.deepEqual(await Promise.all([first.verify(), second.verify()]), [false, false]);
  assert.equal(await thrown, 'a listener of the user');
  assert.equal(await second.lost, 'gone');
  const third = await locks.mutex(unique()).acquire();
  await third.release();
});

test('a_lease_that_is_released_when_a_close_ends_another_one_is_not_lost', async () => {
  const locks = new LockManager(new MemoryServer());
  const [first, second] = [await locks.mutex('a').acquire(), await locks.mutex('b').acquire()];
  const codes: string[] = [];
  locks.on('release', ({ name, code }) => codes.push(`${name} ${code}`));
  const { signal } = second;
  let released: Promise<string> | undefined;
  first.signal.addEventListener('abort', () => (released = second.release()));
  await locks.close();
  assert.equal(await released, 'released');
  assert.ok(!signal.aborted);
  assert.deepEqual(codes, ['a closed', 'b released']);
});

test('a_lease_that_close_could_not_give_back_is_not_called_released', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const lease = await locks.mutex(unique()).acquire();
  server.delay('10m');
  await time.until(locks.close());
  assert.ok(isLeaseholdError(await caught(lease.release()), 'unreachable'));
});

for (const order of ['release first', 'close first'] as const) {
  /** Releases the lease and closes the manager, in this order. Returns the error of the release. */
  const both = async (locks: LockManager, lease: Lease): Promise<unknown> => {
    const closing = order === 'close first' && locks.close();
    const releasing = caught(lease.release());
    await (closing || locks.close());
    return releasing;
  };

  test(`a_release_beside_close_that_a_silent_server_did_not_confirm_is_not_called_released: ${order}`, async (t) => {
    const [time, server] = [new VirtualTime(t), new MemoryServer()];
    // The leases end on the server before the manager gives up.
    const locks = new LockManager(server, { ttl: 1_000, responseTimeout: 1_500 });
    const lease = await locks.mutex(unique()).acquire();
    server.delay('10m');
    const done = both(locks, lease);
    await time.until(done);
    const error = await done;
    assert.ok(isLeaseholdError(error, 'unreachable') && error.lockName === lease.name, String(error));
  });

  test(`a_release_beside_close_that_the_server_refuses_is_not_called_released: ${order}`, async (t) => {
    const fleet = await Fleet.start((end) => t.after(end));
    const locks = fleet.manager();
    const lease = await locks.mutex(unique()).acquire();
    await fleet.redis.acl('SETUSER', 'default', '-evalsha', '-eval');
    // Fails on servers that have no such command.
    for (const command of ['-delifeq', '-delex']) await fleet.redis.acl('SETUSER', 'default', command).catch(() => {});
    const error = await both(locks, lease);
    assert.ok(isLeaseholdError(error, 'auth') && error.lockName === lease.name, String(error));
  });
}
