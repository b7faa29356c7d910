/** A closed client ends calls at once, and a dead server delays a call no longer than its time limit. */

import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';

import { isLeaseholdError, LockManager, type LockManagerOptions } from '../index.js';
import { caught } from '../testing/expect.js';
import { GENEROUS, IMPATIENT } from '../testing/generous.js';
import { libraries, type Library } from '../testing/libraries.js';
import { Server } from '../testing/server.js';

for (const library of libraries) {
  describe(library.name, () => {
    test('calls_over_a_client_that_was_closed_end_at_once', async (t) => {
      const { locks, close } = await opened(t, library, GENEROUS);
      const [held, waited] = [await locks.mutex('held').acquire(), await locks.mutex('waited').acquire()];
      const waiting = caught(locks.mutex('waited').acquire({ wait: 'forever' }));
      await close();
      const calls = {
        release: () => held.release(),
        acquire: () => locks.mutex('free').acquire({ wait: 'forever' }),
        tryAcquire: () => locks.mutex('free').tryAcquire(),
        verify: () => waited.verify(),
        inspect: () => locks.inspect('free'),
        forceRelease: () => locks.forceRelease('free'),
        'the wait that was under way': () => Promise.reject(waiting),
      };
      for (const [what, call] of Object.entries(calls)) {
        const error = await caught(call().catch(async (thrown: unknown) => Promise.reject(await thrown)));
        assert.ok(isLeaseholdError(error, 'unreachable'), `${what}: ${String(error)}`);
        // The message names the closed client, not an answer that is late.
        assert.match(error.message, /closed/, what);
      }
      await locks.close();
    });
  });
}

// How long each call takes is tested on virtual time, in `api/loss.test.ts` and `api/bad-input.test.ts`.
test('over_a_server_that_is_dead_or_silent_every_call_ends', async (t) => {
  for (const end of ['kill', 'pause'] as const) {
    const { locks, server } = await opened(t, libraries[1]!, IMPATIENT);
    await (await locks.mutex('a').acquire()).release();
    await server[end]();
    const calls: [string, () => Promise<unknown>][] = [
      ['tryAcquire within 500 ms', () => locks.mutex('a').tryAcquire({ wait: 500 })],
      ['tryAcquire of several within 500 ms', () => locks.multi(['e', 'f']).tryAcquire({ wait: 500 })],
      ['acquire within 500 ms', () => locks.mutex('g').acquire({ wait: 500 })],
      ['tryAcquire of a lock with a wait', () => locks.mutex('b', { wait: 500 }).tryAcquire()],
      ['tryAcquire of a semaphore', () => locks.semaphore('c', { limit: 2 }).tryAcquire({ wait: 500 })],
      ['tryAcquire', () => locks.mutex('d').tryAcquire()],
      ['inspect', () => locks.inspect('a')],
    ];
    await Promise.all(calls.map(async ([what, call]) => {
      const error = await caught(call());
      assert.ok(isLeaseholdError(error, 'unreachable'), `${what}: ${String(error)}`);
    }));
    await locks.close();
  }
});

test('closing_tells_how_many_leases_the_server_has_not_confirmed_as_given_back', async (t) => {
  for (const [end, unreleased] of [['kill', 3], ['pause', 3], ['resume', 0]] as const) {
    const { locks, server } = await opened(t, libraries[1]!, end === 'resume' ? GENEROUS : IMPATIENT);
    for (const name of ['a', 'b', 'c']) await locks.mutex(name).acquire();
    await server[end]();
    assert.deepEqual(await locks.close(), { unreleased }, end);
    assert.deepEqual(await locks.close(), { unreleased }, 'the same again');
  }
});

async function opened(t: TestContext, library: Library, options: LockManagerOptions): Promise<{ server: Server; locks: LockManager; close: () => Promise<unknown> }> {
  const server = await Server.start();
  t.after(() => server.kill());
  const { client, close } = await library.open(server.port);
  const locks = new LockManager(client, options);
  t.after(async () => {
    server.resume();
    // The server may be dead, so the client is closed first.
    await close().catch(() => {});
    await locks.close();
  });
  return { server, locks, close };
}
