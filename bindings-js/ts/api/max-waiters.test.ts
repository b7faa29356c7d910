/** Tests `maxWaiters`: a call is refused at once if so many callers wait already. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BusyError, InvalidOptionError, Owner } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';

const fleet = await Fleet.start();

test('a_call_is_refused_behind_as_many_callers_and_learns_how_many', async () => {
  const name = unique('report');
  const [one, two] = [fleet.manager(), fleet.manager()];
  const held = await one.mutex(name).acquire();
  const waiting = [two.mutex(name).acquire(), two.mutex(name).acquire()];
  await until(async () => (await one.inspect(name)).waiters[0]?.callers === 2);
  for (const locks of [two, fleet.manager()]) {
    const error = await caught(locks.mutex(name, { maxWaiters: 2 }).acquire());
    assert.ok(error instanceof BusyError && error.waiters === 2, String(error));
    assert.match(error.message, /busy: the limit of waiting callers is reached \(2\)/);
  }
  await held.release();
  for (const lease of waiting) await (await lease).release();
  const free = await two.mutex(name, { maxWaiters: 0 }).acquire();
  const never = await caught(two.mutex(name).acquire({ maxWaiters: 0 }));
  assert.ok(never instanceof BusyError && never.waiters === 0, String(never));
  await free.release();
});

test('a_wrong_number_is_refused_and_so_are_locks_without_a_queue', async () => {
  const locks = fleet.manager();
  for (const maxWaiters of [-1, 0.5, '3', 1_000_001]) {
    const error = await caught(locks.mutex(unique('report'), { maxWaiters: 1 }).acquire({ maxWaiters: maxWaiters as number }));
    assert.ok(error instanceof InvalidOptionError && error.message.includes('maxWaiters'), String(error));
  }
  const reentrant = await caught(locks.reentrant(unique('report'), new Owner()).acquire({ maxWaiters: 1 }));
  assert.ok(reentrant instanceof Error && 'code' in reentrant && reentrant.code === 'unsupported', String(reentrant));
});
