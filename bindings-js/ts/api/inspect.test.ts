/** Tests how managers, locks and leases look in logs. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { HOST } from '../support/timers.js';
import { Fleet, unique } from '../testing/fleet.js';

const fleet = await Fleet.start();

test('a_lease_shows_what_it_is_and_how_it_ended', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  assert.match(inspect(lease), new RegExp(`^Lease \\{\\s+name: '${name}',\\s+mode: 'exclusive',\\s+fence: ${lease.fence},\\s+isHeld: true,\\s+remaining: \\d+\\s+\\}$`));
  assert.match(inspect({ lease }, { depth: 0 }), /lease: \[Lease\]/);
  const nested = lease.nested();
  assert.match(inspect(lease), /holdCount: 2/);
  await nested.release();
  await lease.release();
  assert.match(inspect(lease), /isHeld: false,\s+ended: 'released'\s+\}$/);
  assert.match(inspect(nested), /ended: 'released'/);

  const doomed = await locks.mutex(name).acquire();
  await fleet.redis.del(name);
  await doomed.verify();
  assert.match(inspect(doomed), /isHeld: false,\s+ended: 'lost: gone'\s+\}$/);

  const last = await locks.mutex(name).acquire();
  await locks.close();
  assert.match(inspect(last), /isHeld: false,\s+ended: 'closed'\s+\}$/);
});

test('a_lease_in_a_log_of_json_shows_the_same', async () => {
  const lease = await fleet.manager().mutex(unique()).acquire();
  const { name, mode, fence } = lease;
  const { remaining, ...shown } = JSON.parse(JSON.stringify({ lease })).lease as Record<string, unknown>;
  assert.deepEqual(shown, { name, mode, fence, isHeld: true });
  assert.ok(typeof remaining === 'number' && remaining > 0);
  await lease.release();
  assert.deepEqual(JSON.parse(JSON.stringify(lease)), { name, mode, fence, isHeld: false, ended: 'released' });
});

test('a_lease_whose_time_has_run_out_says_so_before_anybody_was_told', async (t) => {
  const now = t.mock.method(HOST, 'now', HOST.now);
  const lease = await fleet.manager().mutex(unique()).acquire({ renew: false });
  const { remaining } = lease;
  const then = HOST.now();
  now.mock.mockImplementation(() => then + remaining);
  assert.match(inspect(lease), /isHeld: false,\s+ended: 'lost: expired'\s+\}$/);
});

test('a_lock_and_a_manager_show_what_they_are', async () => {
  const [locks, name] = [fleet.manager({ prefix: 'billing:' }), unique()];
  assert.equal(inspect(locks.mutex(name)), `Lock { name: '${name}', mode: 'exclusive' }`);
  assert.equal(inspect(locks.readWrite(name)), `ReadWriteLock { name: '${name}' }`);
  assert.equal(inspect(locks.readWrite(name).read()), `Lock { name: '${name}', mode: 'shared' }`);
  const lease = await locks.mutex(name).acquire();
  assert.match(inspect(locks), /^LockManager \{\s+connection: 'ioredis',\s+prefix: 'billing:',\s+held: 1,\s+pending: 0,?\s+\}$/);
  await lease.release();
  await locks.close();
  assert.match(inspect(locks), /closed: true/);
  for (const shown of [inspect(lease), inspect(locks)]) assert.doesNotMatch(shown, /[0-9a-f]{8}-[0-9a-f]{4}/, 'a token');
});

test('the_classes_have_the_names_that_users_know', async () => {
  const lease = await fleet.manager().mutex(unique()).acquire();
  assert.equal(lease.constructor.name, 'Lease');
  assert.equal(Object.prototype.toString.call(lease), '[object Lease]');
  await lease.release();
});
