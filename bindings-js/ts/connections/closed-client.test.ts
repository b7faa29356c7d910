/** A closed client ends calls at once, and a dead server delays a call no longer than its time limit. */

import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught } from '../testing/expect.js';
import { libraries, type Library } from '../testing/libraries.js';
import { Server } from '../testing/server.js';

/** Far below the response timeout of two seconds, and enough for a busy machine. */
const SOON_MS = 1_000;

for (const library of libraries) {
  describe(library.name, { timeout: 60_000 }, () => {
    test('calls_over_a_client_that_was_closed_end_at_once', async (t) => {
      const { locks, close } = await opened(t, library);
      const [held, waited] = [await locks.mutex('held').acquire(), await locks.mutex('waited').acquire()];
      const waiting = caught(locks.mutex('waited').acquire({ wait: '30s' }));
      await close();
      const calls = {
        release: () => held.release(),
        acquire: () => locks.mutex('free').acquire({ wait: '30s' }),
        tryAcquire: () => locks.mutex('free').tryAcquire(),
        verify: () => waited.verify(),
        inspect: () => locks.inspect('free'),
        forceRelease: () => locks.forceRelease('free'),
        'the wait that was under way': () => Promise.reject(waiting),
      };
      for (const [what, call] of Object.entries(calls)) {
        const { error, took } = await timed(() => caught(call().catch(async (thrown: unknown) => Promise.reject(await thrown))));
        assert.ok(isLeaseholdError(error, 'unreachable'), `${what}: ${String(error)}`);
        assert.match(error.message, /closed/, what);
        assert.ok(took < SOON_MS, `${what} took ${took} ms`);
      }
      const { took } = await timed(() => locks.close());
      assert.ok(took < SOON_MS, `close took ${took} ms`);
    });
  });
}

test('over_a_server_that_is_dead_or_silent_no_call_takes_longer_than_it_may', { timeout: 60_000 }, async (t) => {
  for (const end of ['kill', 'pause'] as const) {
    const { locks, server } = await opened(t, libraries[1]!);
    await (await locks.mutex('a').acquire()).release();
    await server[end]();
    const bounds: [string, () => Promise<unknown>, number][] = [
      ['tryAcquire within 500 ms', () => locks.mutex('a').tryAcquire({ wait: 500 }), 500],
      ['tryAcquire of several within 500 ms', () => locks.multi(['e', 'f']).tryAcquire({ wait: 500 }), 500],
      ['acquire within 500 ms', () => locks.mutex('g').acquire({ wait: 500 }), 500],
      ['tryAcquire of a lock with a wait', () => locks.mutex('b', { wait: 500 }).tryAcquire(), 500],
      ['tryAcquire of a semaphore', () => locks.semaphore('c', { limit: 2 }).tryAcquire({ wait: 500 }), 500],
      ['tryAcquire', () => locks.mutex('d').tryAcquire(), 2_000],
      ['inspect', () => locks.inspect('a'), 2_000],
    ];
    await Promise.all(bounds.map(async ([what, call, bound]) => {
      const { error, took } = await timed(() => caught(call()));
      assert.ok(isLeaseholdError(error, 'unreachable'), `${what}: ${String(error)}`);
      assert.ok(took < bound + 500, `${what} took ${took} ms with a server that was ended by ${end}`);
    }));
    const { took } = await timed(() => locks.close());
    assert.ok(took < SOON_MS, `close with nothing held took ${took} ms`);
  }
});

test('closing_tells_how_many_leases_the_server_has_not_confirmed_as_given_back', { timeout: 60_000 }, async (t) => {
  for (const [end, unreleased] of [['kill', 3], ['pause', 3], ['resume', 0]] as const) {
    const { locks, server } = await opened(t, libraries[1]!);
    for (const name of ['a', 'b', 'c']) await locks.mutex(name).acquire();
    await server[end]();
    const began = performance.now();
    assert.deepEqual(await locks.close(), { unreleased }, end);
    assert.deepEqual(await locks.close(), { unreleased }, 'the same again');
    const took = performance.now() - began;
    assert.ok(took < 2_500, `${end}: ${took} ms`);
  }
});

async function opened(t: TestContext, library: Library): Promise<{ server: Server; locks: LockManager; close: () => Promise<unknown> }> {
  const server = await Server.start();
  t.after(() => server.kill());
  const { client, close } = await library.open(server.port);
  const locks = new LockManager(client);
  t.after(async () => {
    server.resume();
    await locks.close();
    await close().catch(() => {});
  });
  return { server, locks, close };
}

async function timed(act: () => Promise<unknown>): Promise<{ error: unknown; took: number }> {
  const began = performance.now();
  const error = await act();
  return { error, took: Math.trunc(performance.now() - began) };
}
