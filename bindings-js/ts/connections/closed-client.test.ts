/** A closed client ends calls at once, and a dead server delays a call no longer than its time limit. */

import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';

import { isLeaseholdError, LockManager, type LockManagerOptions } from '../index.js';
import { caught } from '../testing/expect.js';
import { GENEROUS, IMPATIENT } from '../testing/generous.js';
import { libraries, type Library, type Opened } from '../testing/libraries.js';
import { Server } from '../testing/server.js';
import { VirtualTime } from '../testing/virtual-time.js';

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
    // An acquire tries again if its answer is late. A release does not.
    await locks.mutex('held').acquire();
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
    assert.deepEqual(await locks.close(), { lost: 3, unreleased }, end);
    assert.deepEqual(await locks.close(), { lost: 3, unreleased }, 'the same again');
  }
});

/** Ways in which a client ends for good, for libraries that have them. */
const ENDS = ['disconnect', 'quit', 'destroy', 'close'] as const;

for (const library of libraries) {
  for (const end of ENDS) {
    test(`${library.name}: a close after the client's ${end}() counts every lease`, async (t) => {
      const { locks, client } = await opened(t, library, GENEROUS);
      const method = (client as unknown as Record<string, (() => unknown) | undefined>)[end];
      if (method === undefined) return t.skip('the library has no such method');
      for (const name of ['a', 'b', 'c']) await locks.mutex(name).acquire();
      await method.call(client);
      assert.deepEqual(await locks.close(), { lost: 3, unreleased: 3 });
    });
  }

  test(`${library.name}: a close without the right to run scripts counts every lease`, async (t) => {
    const { locks, run } = await opened(t, library, GENEROUS);
    for (const name of ['a', 'b', 'c']) await locks.mutex(name).acquire();
    await run('ACL', 'SETUSER', 'default', '-eval', '-evalsha');
    assert.deepEqual(await locks.close(), { lost: 3, unreleased: 3 });
  });
}

for (const version of ['ioredis-5', 'ioredis-6'] as const) {
  test(`${version}: a close after a crash counts every lease, if the client does not connect again`, async (t) => {
    const server = await Server.start();
    t.after(() => server.kill());
    const { Redis } = (await import(version)) as typeof import('ioredis-6');
    const client = new Redis(server.port, '127.0.0.1', { retryStrategy: () => null });
    client.on('error', () => {});
    const locks = new LockManager(client, GENEROUS);
    for (const name of ['a', 'b', 'c']) await locks.mutex(name).acquire();
    const ended = new Promise<void>((resolve) => client.once('end', resolve));
    await server.kill();
    await ended;
    assert.deepEqual(await locks.close(), { lost: 3, unreleased: 3 });
  });
}

test('whatever a server or a connection answers to a release, a close counts the leases that stay', async (t) => {
  const failing = (message: string, more: object = {}) => () => Promise.reject(Object.assign(new Error(message), more));
  const answers: [string, () => Promise<unknown>, number][] = [
    ['a missing right', failing("NOPERM this user has no permissions to run the 'evalsha' command"), 2],
    ['no login', failing('NOAUTH Authentication required.'), 2],
    ['a connection that can not run scripts', failing('no scripts here', { code: 'unsupported' }), 2],
    ['a connection that is down', failing('down', { sent: false }), 2],
    ['a connection that breaks', failing('socket hang up'), 2],
    ['a server that is full', failing('OOM command not allowed when used memory > maxmemory.'), 2],
    ['a replica', failing("READONLY You can't write against a read only replica."), 2],
    ['an unknown error', failing('ERR something else'), 2],
    ['an answer that makes no sense', async () => 'nonsense', 2],
    ['an empty list', async () => [], 2],
    ['silence', () => new Promise(() => {}), 2],
    // The key belongs to another program by now.
    ['a key of another type', failing('WRONGTYPE Operation against a key holding the wrong kind of value'), 0],
  ];
  const time = new VirtualTime(t);
  for (const [what, answer, unreleased] of answers) {
    let isOver = false;
    let fence = 1e15;
    const locks = new LockManager({
      call: (args) => {
        if (isOver) return answer();
        // The fast path of an acquire is the only command with three keys.
        return args[2] === '3' ? Promise.resolve(String(++fence)) : Promise.resolve(1);
      },
    });
    for (const name of ['a', 'b']) await time.result(locks.mutex(name).acquire());
    isOver = true;
    assert.deepEqual(await time.result(locks.close()), { lost: 2, unreleased }, what);
  }
});

async function opened(t: TestContext, library: Library, options: LockManagerOptions): Promise<{ server: Server; locks: LockManager } & Opened> {
  const server = await Server.start();
  t.after(() => server.kill());
  const { client, run, close } = await library.open(server.port);
  const locks = new LockManager(client, options);
  t.after(async () => {
    server.resume();
    // The server may be dead, so the client is closed first.
    await close().catch(() => {});
    await locks.close();
  });
  return { server, locks, client, run, close };
}
