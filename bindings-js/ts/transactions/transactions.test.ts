/** Locks on a server whose user may run no script, with every library that can do it. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS } from '../testing/generous.js';
import { libraries } from '../testing/libraries.js';
import { Server } from '../testing/server.js';
import { withoutScripts } from './index.js';

/** The default user's rights: all but scripts. */
const REFUSING = ['--user', 'default', 'on', 'nopass', '~*', '&*', '+@all', '-@scripting'];

const fleet = await Fleet.start();
const refusing = await Server.start(...REFUSING);
after(() => refusing.kill());

for (const library of libraries.filter(({ name }) => !name.startsWith('GLIDE'))) {
  describe(library.name, async () => {
    const opened = await Promise.all([library.open(refusing.port), library.open(refusing.port)]);
    const managers = opened.map(({ client }) => new LockManager(withoutScripts(client), GENEROUS));
    const [ours, theirs] = managers as [LockManager, LockManager];
    after(async () => {
      await Promise.all(managers.map((locks) => locks.close()));
      await Promise.all(opened.map((connection) => connection.close()));
    });

    test('a_waiter_is_granted_by_message', async () => {
      const name = unique();
      const lease = await ours.mutex(name).acquire();
      assert.equal(await theirs.mutex(name).tryAcquire(), null);
      const waiting = theirs.mutex(name).acquire();
      await until(async () => (await ours.inspect(name)).waiters.length === 1);
      assert.equal(await lease.release(), 'released');
      const granted = await waiting;
      assert.ok(granted.fence > lease.fence && (await granted.verify()));
      assert.equal(await granted.release(), 'released');
    });

    test('readers_permits_and_several_names_work', async () => {
      const name = unique('ключ \u{1F512}');
      const readers = await Promise.all([ours.readWrite(name).read().acquire(), theirs.readWrite(name).read().acquire()]);
      assert.equal(await ours.readWrite(name).write().tryAcquire(), null);
      await readers[0]!.release();
      await readers[1]!.upgrade();
      await readers[1]!.release();
      const permits = await ours.semaphore(`${name}-pool`, { limit: 2, permits: 2 }).acquire();
      assert.equal(await theirs.semaphore(`${name}-pool`, { limit: 2 }).tryAcquire(), null);
      await permits.release();
      const several = await ours.multi([`${name}-a`, `${name}-b`]).acquire();
      assert.equal(await theirs.mutex(`${name}-b`).tryAcquire(), null);
      await several.release();
    });

    test('callers_of_two_clients_lose_no_update', async () => {
      const name = unique();
      let value = 0;
      await Promise.all(managers.flatMap((locks) => [1, 2, 3].map(async () => {
        for (let i = 0; i < 10; i++) {
          await locks.mutex(name).run(async () => {
            const seen = value;
            await new Promise((resolve) => setImmediate(resolve));
            value = seen + 1;
          });
        }
      })));
      assert.equal(value, 60);
    });

    test('it_goes_on_after_the_server_has_closed_all_connections', async () => {
      const name = unique();
      await (await ours.mutex(name).acquire()).release();
      const { run, close } = await library.open(refusing.port);
      await run('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      const lease = await ours.mutex(name).acquire();
      assert.equal(await lease.release(), 'released');
      await close();
    });
  });
}

test('a_client_with_scripts_shares_the_locks', async () => {
  const name = unique();
  const [plain, other] = [fleet.manager(), new LockManager(withoutScripts(fleet.client()), GENEROUS)];
  const lease = await plain.mutex(name).acquire();
  const waiting = other.mutex(name).acquire();
  await fleet.waiting(name, 1);
  await lease.release();
  const next = await waiting;
  assert.ok(next.fence > lease.fence);
  assert.equal(await plain.mutex(name).tryAcquire(), null);
  await next.release();
  await other.close();
});

test('without_it_the_error_names_the_command_that_is_refused', async () => {
  const { client, close } = await libraries[1]!.open(refusing.port);
  const locks = new LockManager(client);
  const error = await caught(locks.mutex('door').acquire());
  assert.ok(isLeaseholdError(error, 'auth') && error.message.includes('evalsha'), String(error));
  await locks.close();
  await close();
});

test('calls_over_a_client_that_was_closed_end_at_once', async () => {
  const client = fleet.client();
  const locks = new LockManager(withoutScripts(client), GENEROUS);
  const lease = await locks.mutex('closing').acquire();
  client.disconnect();
  await until(async () => client.status === 'end');
  for (const call of [() => lease.release(), () => locks.mutex('closing').acquire({ wait: 'forever' })]) {
    const error = await caught(call());
    assert.ok(isLeaseholdError(error, 'unreachable') && error.message.includes('closed'), String(error));
  }
  await locks.close();
});

test('connections_that_can_open_no_other_one_are_refused', () => {
  const custom = { call: async () => null };
  for (const client of [custom, null, 'redis://127.0.0.1', {}]) {
    assert.throws(() => new LockManager(withoutScripts(client as object)), { code: 'invalid-option' });
  }
  assert.throws(() => new LockManager(withoutScripts(custom)), /ioredis and node-redis/);
});
