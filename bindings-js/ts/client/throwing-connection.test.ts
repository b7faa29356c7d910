/** A connection that throws in the middle of a call, as the client library does that was patched. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { Redis } from 'ioredis-6';

import { recognise } from '../connections/index.js';
import { type Connection, isLeaseholdError, LockManager } from '../index.js';
import { openLink } from '../support/in-memory.js';
import { Fleet, unique } from '../testing/fleet.js';
import { IMPATIENT } from '../testing/generous.js';

const fleet = await Fleet.start();

test('a_client_that_throws_before_it_is_connected_counts_as_unreachable_too', async (t) => {
  class Patched extends Redis {
    override callBuffer(): never {
      return assert.fail('a patch is broken');
    }
  }
  const client = new Patched(fleet.server.port, '127.0.0.1', { lazyConnect: true });
  t.after(() => client.disconnect());
  const locks = new LockManager(client, IMPATIENT);
  const calls = [locks.mutex(unique()).acquire({ wait: 200 }), locks.mutex(unique()).tryAcquire({ wait: 200 }), locks.inspect(unique())];
  // A rejection that nobody handles would end the test.
  for (const failed of await Promise.allSettled(calls)) {
    assert.ok(failed.status === 'rejected' && isLeaseholdError(failed.reason, 'unreachable'), String(failed));
    assert.match(failed.reason.message, /a patch is broken/);
  }
  await locks.close();
});

test('a_client_that_throws_counts_as_unreachable_and_the_manager_works_again_afterwards', async () => {
  let broken = false;
  const link = recognise(fleet.client());
  const send = link.send?.bind(link);
  Object.assign(link, {
    send: (wire: string, answered: Parameters<NonNullable<typeof send>>[1]) => (broken ? assert.fail('a patch is broken') : send?.(wire, answered)),
  });
  const locks = new LockManager({ [openLink]: () => link } as unknown as Connection, { responseTimeout: '1s' });
  after(() => locks.close());
  // The version is checked, and the server knows the script.
  await (await locks.mutex(unique()).acquire()).release();

  broken = true;
  // An error here would be an uncaught exception or an unhandled rejection, which ends the test.
  const failures = await Promise.allSettled([1, 2].map(() => locks.mutex(unique()).acquire({ wait: 200 })));
  broken = false;
  for (const failed of failures) {
    assert.ok(failed.status === 'rejected' && isLeaseholdError(failed.reason, 'unreachable'));
    assert.match(failed.reason.message, /a patch is broken/);
  }
  await (await locks.mutex(unique()).acquire()).release();
});
