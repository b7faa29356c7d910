/** Which calls share a command, and when it leaves. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { LockManager } from '../index.js';
import { Fleet, unique } from '../testing/fleet.js';
import { caught } from '../testing/expect.js';

const fleet = await Fleet.start();

/** A manager whose scripts the server knows, and the commands that it has given to its connection since. */
async function watched(): Promise<{ locks: LockManager; sent: string[][] }> {
  const sent: string[][] = [];
  const locks = new LockManager({
    call: (args) => {
      sent.push(args);
      return fleet.redis.call(...(args as [string])) as Promise<unknown>;
    },
  });
  after(() => locks.close());
  // A call alone and several together have different scripts.
  for (const calls of [1, 2]) {
    const leases = await Promise.all(Array.from({ length: calls }, () => locks.mutex(unique()).acquire()));
    await Promise.all(leases.map((lease) => lease.release()));
  }
  sent.length = 0;
  return { locks, sent };
}

test('a_call_leaves_at_once_if_nothing_is_in_flight_and_the_next_ones_share_a_command', async () => {
  const { locks, sent } = await watched();
  const first = locks.mutex(unique()).acquire();
  assert.equal(sent.length, 0, 'its code may still abort it');
  await nextTick();
  assert.equal(sent.length, 1);
  const others = [locks.mutex(unique()).acquire(), locks.mutex(unique()).acquire()];
  await nextTick();
  assert.equal(sent.length, 1);
  const leases = await Promise.all([first, ...others]);
  assert.equal(sent.length, 2);
  for (const lease of leases) await lease.release();
});

test('a_call_that_is_aborted_in_the_same_turn_sends_nothing', async () => {
  const { locks, sent } = await watched();
  const controller = new AbortController();
  const acquired = caught(locks.mutex(unique()).acquire({ signal: controller.signal }));
  controller.abort(new Error('too late'));
  assert.equal((await acquired as Error).message, 'too late');
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  assert.deepEqual(sent, []);
});

function nextTick(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
