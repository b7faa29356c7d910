/** Tests the life of a lock with every library, and with a connection that can't subscribe. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { LockManager } from '../index.js';
import { Fleet, unique } from '../testing/fleet.js';
import { until } from '../testing/expect.js';
import { GENEROUS, POLLING } from '../testing/generous.js';
import { libraries, type Library } from '../testing/libraries.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

const polling: Library = {
  name: 'a connection without subscribe',
  emits: false,
  open: async () => {
    const redis = fleet.client();
    return { client: { call: ([name = '', ...args]: string[]) => redis.call(name, ...args) }, run: async () => {}, close: async () => {} };
  },
};

for (const library of [...libraries, polling]) {
  describe(library.name, async () => {
    const opened = await Promise.all([library.open(fleet.server.port), library.open(fleet.server.port)]);
    const [ours, theirs] = opened.map(({ client }) => new LockManager(client, library === polling ? POLLING : GENEROUS)) as [LockManager, LockManager];
    after(async () => {
      await Promise.all([ours.close(), theirs.close()]);
      await Promise.all(opened.map((connection) => connection.close()));
    });

    test('a_waiter_is_granted_when_the_holder_releases', async () => {
      const name = unique();
      const lease = await ours.mutex(name).acquire();
      const waiting = theirs.mutex(name).acquire();
      await fleet.waiting(name, 1);
      assert.equal(await lease.release(), 'released');
      const granted = await waiting;
      assert.ok(granted.fence > lease.fence && granted.isHeld && (await granted.verify()));
      assert.equal(await granted.release(), 'released');
    });

    test('two_clients_take_turns_and_lose_no_update', async () => {
      const name = unique('ключ \u{1F512}');
      let value = 0;
      await Promise.all([ours, theirs].flatMap((locks) => [1, 2, 3].map(async () => {
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

    test('a_client_behind_a_proxy_is_used_as_it_is', async () => {
      const locks = new LockManager(bound(opened[0]?.client as object) as never, library === polling ? POLLING : GENEROUS);
      const name = unique();
      const lease = await locks.mutex(name).acquire();
      const waiting = theirs.mutex(name).acquire();
      await fleet.waiting(name, 1);
      assert.equal(await lease.release(), 'released');
      const second = locks.mutex(name).acquire();
      await fleet.waiting(name, 1);
      assert.equal(await (await waiting).release(), 'released');
      assert.equal(await (await second).release(), 'released');
      await locks.close();
    });

    test('a_lease_is_renewed_downgraded_inspected_and_lost', async (t) => {
      const [time, name] = [new VirtualTime(t), unique()];
      const lease = await ours.readWrite(name).write().acquire();
      await fleet.redis.pexpire(name, 120_000);
      await time.pass(110_000, 1_000);
      await time.beside(until(async () => (await fleet.redis.pttl(name)) > 120_000));
      assert.ok(lease.isHeld, 'it was renewed');
      await lease.downgrade();
      const { holders } = await theirs.inspect(name);
      assert.deepEqual(holders.map(({ mode, foreign }) => ({ mode, foreign })), [{ mode: 'shared', foreign: false }]);
      await fleet.redis.del(name, `leasehold:{${name}}:readers`);
      assert.equal(await lease.verify(), false);
      assert.equal(await lease.lost, 'gone');
    });
  });
}

/** Wraps a client as containers and tracers do: its methods are bound to the client itself. */
function bound(client: object): object {
  return new Proxy(client, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
