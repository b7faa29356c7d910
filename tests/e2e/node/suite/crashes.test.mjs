// Other processes die or hang, in Node and in Rust.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { writeGuarded } from '../support/guarded.mjs';
import { startServer } from '../support/server.mjs';
import { GENEROUS, soon, until } from '../support/wait.mjs';
import { LANGUAGES, startWorker } from '../support/worker.mjs';

const TTL = 500;
const CLAIM_WINDOW = 600;

for (const [language, program] of Object.entries(LANGUAGES)) {
  describe(`a process in ${language}`, () => {
    let server, redis, locks;
    const waiters = (name) => server.cli('ZCOUNT', `leasehold:{${name}}:queue`, '0', '+inf');
    const start = (name, ttl = TTL) => startWorker(program, server, name, { ttl, claimWindow: CLAIM_WINDOW });

    before(async () => {
      server = await startServer();
      redis = new Redis(server.port);
      locks = new LockManager(redis, { ...GENEROUS, claimWindow: CLAIM_WINDOW });
    });
    after(async () => {
      await locks.close();
      redis.disconnect();
      await server.stop();
    });

    test('a killed holder frees the lock after its TTL', async () => {
      const holder = start('killed');
      const fence = Number((await holder.report()).replace('held ', ''));
      const waiting = locks.mutex('killed').acquire();
      await until('it waits', async () => await waiters('killed') === 1);
      await holder.process.kill();
      const lease = await soon('the lock of the dead', waiting);
      assert.ok(lease.fence > fence);
      await lease.release();
    });

    test('a killed waiter delays the next one by its claim window at most', async () => {
      const lease = await locks.mutex('waiter').acquire();
      // It would keep the lock for longer than the test waits.
      const dead = start('waiter', 600_000);
      await until('it waits', async () => await waiters('waiter') === 1);
      const later = new LockManager(redis, { ...GENEROUS, claimWindow: CLAIM_WINDOW });
      const waiting = later.mutex('waiter').acquire();
      await until('both wait', async () => await waiters('waiter') === 2);
      await dead.process.kill();
      await lease.release();
      await (await soon('the lock that the dead did not claim', waiting)).release();
      await later.close();
    });

    test('a holder paused past its TTL is notified of the loss, and its stale write is refused', async () => {
      const paused = start('paused');
      assert.match(await paused.report(), /^held /);
      // On a slow machine, the worker may lose the lock before it is paused.
      const reports = [];
      const told = async (what) => {
        while (!reports.includes(what)) reports.push(await paused.report());
      };
      paused.order('write account early');
      await told('written');

      paused.process.pause();
      const lease = await soon('the lock of the paused', locks.mutex('paused').acquire());
      assert.ok(await writeGuarded(redis, 'account', lease.fence, 'fresh'));
      // It reads the order when it resumes, and obeys without checking its lease.
      paused.order('write account stale');
      paused.process.resume();
      for (const what of ['lost expired', 'refused']) await told(what);
      assert.equal(reports.length, 3);
      assert.equal(await redis.hget('account', 'value'), 'fresh');

      paused.order('release');
      assert.equal(await paused.report(), 'AlreadyExpired');
      assert.equal(await lease.verify(), true);
      await lease.release();
    });

    test('a waiter that was paused for a long time still gets the lock', async () => {
      const lease = await locks.mutex('slow').acquire();
      const paused = start('slow', 60_000);
      await until('it waits', async () => await waiters('slow') === 1);
      paused.process.pause();
      // It is removed from the queue, and other clients take and release the lock.
      await lease.release();
      await (await soon('the lock', locks.mutex('slow').acquire())).release();
      await until('its claim is over', async () => await server.cli('EXISTS', 'slow') === 0);
      paused.process.resume();
      assert.match(await paused.report(), /^held /);
      paused.order('release');
      assert.equal(await paused.report(), 'Released');
    });
  });
}
