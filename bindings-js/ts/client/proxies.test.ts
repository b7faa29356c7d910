/** Tests what becomes of calls while a proxy says that its server is down. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { IMPATIENT } from '../testing/generous.js';

const fleet = await Fleet.start();

test('a_call_waits_while_a_proxy_says_that_its_server_is_down_and_ends_as_unreachable', async () => {
  // twemproxy, predixy and Envoy, before a command was sent and after that.
  for (const text of ['ERR Connection refused', 'ERR unknown', 'ERR no server connection avaliable', 'ERR server connection close', 'no upstream host', 'upstream failure']) {
    let isDown = true;
    let refused = 0;
    const call = async (args: string[]): Promise<unknown> => {
      if (!isDown) return fleet.client().call(args[0] ?? '', ...args.slice(1));
      refused += 1;
      throw new Error(text);
    };
    const locks = new LockManager({ call }, { ...IMPATIENT, wait: 'forever' });
    const name = unique();
    const error = await caught(locks.mutex(name).tryAcquire());
    assert.ok(isLeaseholdError(error, 'unreachable') && error.message.includes(text), `${text}: ${String(error)}`);
    const waiting = locks.mutex(name).acquire();
    const before = refused;
    await until(() => Promise.resolve(refused > before + 3));
    isDown = false;
    assert.ok((await waiting).isHeld);
    await locks.close();
  }
});
