/** A lease that another process takes over. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, LockManager, Owner } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

test('the_adopter_goes_on_with_a_greater_fence_and_the_former_holder_is_told', async (t) => {
  const own = await Fleet.start((close) => t.after(close));
  const [first, second] = [own.manager(), own.manager()];
  const before = await second.mutex('invoice').acquire();
  const waiting = first.mutex('invoice').acquire();
  await own.waiting('invoice', 1);
  await before.release();
  // A message told it of the grant, so it will hear of the adoption too.
  const lease = await waiting;
  const token = lease.token();
  const adopted = await second.mutex('invoice').adopt(token, { ttl: '4m' });
  assert.ok(adopted.fence > lease.fence && adopted.isHeld && adopted.ttl === 240_000);
  assert.equal(await lease.lost, 'revoked');
  assert.equal(await lease.release(), 'already-expired');
  assert.equal(await adopted.verify(), true);
  assert.equal(await adopted.release(), 'released');
});

test('a_lease_outlives_the_process_that_acquired_it_because_the_adopter_renews_it', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [first, second] = [new LockManager(server), new LockManager(server)];
  const name = unique('job');
  const lease = await first.mutex(name).acquire();
  lease.stopRenewing();
  const adopted = await second.mutex(name).adopt(lease.token());
  await time.pass(60_000, 100);
  assert.ok(adopted.isHeld);
  assert.equal(await first.mutex(name).tryAcquire(), null);
  await adopted.release();
});

test('a_token_works_once_and_not_after_the_lease', async () => {
  const [first, second] = [fleet.manager(), fleet.manager()];
  const name = unique('job');
  const lease = await first.mutex(name).acquire();
  const token = lease.token();
  const adopted = await second.mutex(name).adopt(token);
  for (const manager of [first, second]) {
    const error = await caught(manager.mutex(name).adopt(token));
    assert.ok(isLeaseholdError(error, 'not-held') && error.lockName === name, String(error));
  }
  await adopted.release();
  assert.throws(() => adopted.token(), { code: 'not-held' });
  assert.ok(isLeaseholdError(await caught(second.mutex(name).adopt(token)), 'not-held'));
  assert.ok((await second.mutex(name).tryAcquire()) !== null, 'it left nothing behind');
});

test('what_cant_be_adopted_is_refused_before_anything_is_sent', async () => {
  const manager = fleet.manager();
  const name = unique('job');
  for (const token of [undefined, 7, '', 'token', '01234567-89ab-cdef-0123-456789abcdef:07', '01234567-89AB-cdef-0123-456789abcdef:7']) {
    const error = await caught(manager.mutex(name).adopt(token as string));
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'token', `${token}: ${error}`);
  }
  const token = '01234567-89ab-cdef-0123-456789abcdef:7';
  const locks = [manager.reentrant(name, new Owner()), manager.multi([name, 'other'])];
  for (const lock of locks) {
    const error = await caught(lock.adopt(token));
    assert.ok(isLeaseholdError(error, 'unsupported'), `${lock.name}: ${error}`);
  }
  const owned = await locks[0]!.acquire();
  assert.throws(() => owned.token(), { code: 'unsupported' });
  assert.equal(owned.isHeld, true);
});

test('an_adopt_ends_with_its_signal_and_leaves_the_lease_to_its_holder', async () => {
  const [first, second] = [fleet.manager(), fleet.manager()];
  const name = unique('job');
  const lease = await first.mutex(name).acquire();
  const reason = new Error('enough');
  assert.equal(await caught(second.mutex(name).adopt(lease.token(), { signal: AbortSignal.abort(reason) })), reason);
  assert.equal(await lease.verify(), true);
});

test('an_adopt_that_its_signal_ends_gives_back_what_it_may_have_taken', async (t) => {
  const own = await Fleet.start((close) => t.after(close));
  const [first, second] = [own.manager(), own.manager({ ttl: '10m' })];
  // From now on, the server has the scripts.
  const adopted = await second.mutex('job').adopt((await first.mutex('job').acquire()).token());
  await adopted.release();

  const lease = await first.mutex('job').acquire();
  const token = lease.token();
  own.server.pause();
  const controller = new AbortController();
  const adopting = caught(second.mutex('job').adopt(token, { signal: controller.signal }));
  const reason = new Error('enough');
  controller.abort(reason);
  assert.equal(await adopting, reason);
  own.server.resume();
  await until(async () => (await second.mutex('job').tryAcquire()) !== null);
  assert.equal(await lease.verify(), false);
});

test('await_using_releases_an_adopted_lease_and_a_closed_manager_adopts_nothing', async () => {
  const [first, second] = [fleet.manager(), fleet.manager()];
  const name = unique('job');
  const lease = await first.mutex(name).acquire();
  {
    await using adopted = await second.mutex(name).adopt(lease.token(), { maxHold: '10m' });
    assert.ok(adopted.isHeld);
  }
  assert.equal(await fleet.isThere(name), false);
  const next = await first.mutex(name).acquire();
  const token = next.token();
  await second.close();
  assert.ok(isLeaseholdError(await caught(second.mutex(name).adopt(token)), 'closed'));
  assert.equal(await next.verify(), true);
});

test('a_lease_that_is_no_longer_renewed_ends_and_can_be_extended', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const lease = await new LockManager(server).mutex('job').acquire({ ttl: '30s' });
  lease.stopRenewing();
  await lease.extend('100s');
  assert.ok(lease.remaining > 99_000, `${lease.remaining}`);
  await time.pass(100_000, 100);
  assert.equal(await lease.lost, 'expired');
});
