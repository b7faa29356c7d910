/** A lost lease that the program does not watch emits a warning. */

import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import type { Lease } from '../index.js';
import { Fleet, unique } from '../testing/fleet.js';
import { until } from '../testing/expect.js';

const fleet = await Fleet.start();
const locks = fleet.manager();

type Warning = Error & { code?: string };

function warnings(t: TestContext): Warning[] {
  const heard: Warning[] = [];
  const hear = (warning: Warning): void => void (warning.name === 'LeaseLostWarning' && heard.push(warning));
  process.on('warning', hear);
  t.after(() => process.off('warning', hear));
  return heard;
}

/** Deletes a lease's key, and waits until the client notices. */
async function lose(lease: Lease): Promise<void> {
  await fleet.redis.del(lease.name);
  await until(async () => !(await lease.verify()));
  await turn();
}

test('a_lost_lease_that_nobody_watches_is_warned_of_once', async (t) => {
  const heard = warnings(t);
  const lease = await locks.mutex(unique()).acquire();
  lease.nested();
  await lose(lease);
  assert.equal(heard.length, 1);
  const [warning] = heard;
  assert.equal(warning?.code, 'LEASEHOLD_LEASE_LOST');
  assert.ok(warning?.message.includes(`\`${lease.name}\`: the lease was lost: its key vanished`), warning?.message);
  assert.match(warning?.message ?? '', /lease\.signal/);
  await lease.verify();
  await turn();
  assert.equal(heard.length, 1);
});

test('each_lost_lease_has_a_warning_of_its_own_and_a_fixed_one_as_well', async (t) => {
  const heard = warnings(t);
  const leases = await Promise.all([1, 2, 3].map(() => locks.mutex(unique()).acquire({ ttl: 100, renew: false })));
  await until(async () => leases.every(({ isHeld }) => !isHeld) && heard.length > 2);
  await turn();
  assert.deepEqual(heard.map(({ message }) => /`(.*?)`/.exec(message)?.[1]).sort(), leases.map(({ name }) => name).sort());
});

test('a_lease_that_is_watched_emits_no_warning', async (t) => {
  const heard = warnings(t);
  const watched: ((lease: Lease) => unknown)[] = [(lease) => lease.signal, (lease) => lease.lost, (lease) => lease.nested().signal, (lease) => lease.token()];
  for (const watch of watched) {
    const lease = await locks.mutex(unique()).acquire();
    watch(lease);
    await lose(lease);
  }
  const name = unique();
  await assert.rejects(locks.mutex(name).run(async (lease) => lose(lease)), { code: 'lost' });
  await assert.rejects(locks.request(unique(), async (lease) => lose(lease)), { code: 'lost' });
  assert.deepEqual(heard, []);
});

test('a_listener_of_the_managers_losses_watches_all_its_leases', async (t) => {
  const heard = warnings(t);
  const told: string[] = [];
  for (const listen of ['on', 'once'] as const) {
    const listening = fleet.manager();
    const tell = ({ name }: { name: string }): unknown => told.push(name);
    listening[listen]('lost', tell);
    const lease = await listening.mutex(unique()).acquire();
    await lose(lease);
    assert.equal(told.pop(), lease.name);
    listening.off('lost', tell);
    // A listener of something else, and one that has left, hear of no loss.
    listening.on('release', () => {});
    assert.deepEqual(heard.splice(0), []);
    await lose(await listening.mutex(unique()).acquire());
    assert.equal(heard.splice(0).length, 1);
  }
});

test('a_subscriber_of_the_process_is_no_listener_of_the_program', async (t) => {
  const heard = warnings(t);
  const names: string[] = [];
  const hear = (event: unknown): void => void names.push((event as { name: string }).name);
  subscribe('leasehold:lost', hear);
  t.after(() => unsubscribe('leasehold:lost', hear));
  const lease = await locks.mutex(unique()).acquire();
  await lose(lease);
  assert.deepEqual([names, heard.length], [[lease.name], 1]);
});

test('a_lease_that_is_given_back_is_not_warned_of', async (t) => {
  const heard = warnings(t);
  const lease = await locks.mutex(unique()).acquire();
  await fleet.redis.del(lease.name);
  assert.equal(await lease.release(), 'already-expired');
  const other = fleet.manager();
  await other.mutex(unique()).acquire();
  await other.close();
  await turn();
  assert.deepEqual(heard, []);
});

test('where_a_process_has_no_warnings_the_console_is_told', async (t) => {
  const told = t.mock.method(console, 'warn', () => {});
  const emitWarning = process.emitWarning;
  t.after(() => (process.emitWarning = emitWarning));
  (process as { emitWarning?: unknown }).emitWarning = undefined;
  const lease = await locks.mutex(unique()).acquire();
  await lose(lease);
  assert.equal(told.mock.callCount(), 1);
  assert.match(String(told.mock.calls[0]?.arguments[0]), /LeaseLostWarning: .*was lost/);
});
