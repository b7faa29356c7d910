// Connections break, or the server hangs, forgets its scripts, loses its data or is down.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { startServer } from '../support/server.mjs';
import { GENEROUS, soon, until } from '../support/wait.mjs';

let server, ends;
const waiters = (name) => server.cli('ZCOUNT', `leasehold:{${name}}:queue`, '0', '+inf');

beforeEach(async () => {
  ends = [];
  server = await startServer();
});
afterEach(async () => {
  for (const end of ends) await end();
  await server.stop();
});

/** A manager with a connection of its own. */
function manager(options = {}) {
  const redis = new Redis(server.port, { retryStrategy: () => 20 });
  redis.on('error', () => {});
  const locks = new LockManager(redis, { ...GENEROUS, ...options });
  ends.push(async () => {
    await locks.close();
    redis.disconnect();
  });
  return locks;
}

const cut = (kind) => server.cli('CLIENT', 'KILL', 'TYPE', kind, 'SKIPME', 'yes');

test('holders survive the cutting of their command connection', async () => {
  const locks = manager();
  const held = await locks.mutex('held').acquire({ ttl: 30_000 });
  // Until the lease has been renewed, after a third of its TTL.
  for (let before = 0, left = Infinity; left <= before || before === 0;) {
    before = left;
    await cut('normal');
    const lease = await soon('the lock', locks.mutex('door').acquire());
    await cut('normal');
    assert.equal(await soon('an answer', lease.verify()), true);
    await cut('normal');
    assert.equal(await soon('the release', lease.release()), 'released');
    left = await server.cli('PTTL', 'held');
  }
  assert.ok(held.isHeld && await held.verify());
});

test('a waiter survives the cutting of its command connection and of its subscription', async () => {
  const [holder, waiter] = [manager(), manager()];
  const lease = await holder.mutex('door').acquire();
  const waiting = waiter.mutex('door').acquire();
  await until('it waits', async () => await waiters('door') === 1);
  await cut('normal');
  await cut('pubsub');
  await lease.release();
  await (await soon('the lock', waiting)).release();
});

test('forgotten scripts are sent again', async () => {
  const locks = manager();
  await (await locks.mutex('door').acquire()).release();
  await server.cli('SCRIPT', 'FLUSH');
  const lease = await soon('the lock', locks.mutex('door').acquire());
  await server.cli('SCRIPT', 'FLUSH');
  assert.equal(await soon('the release', lease.release()), 'released');
});

test('a holder is notified after FLUSHALL, and fences still rise', async () => {
  const locks = manager();
  const lease = await locks.mutex('door').acquire();
  await server.cli('FLUSHALL');
  void lease.verify();
  assert.equal(await soon('the loss', lease.lost), 'gone');
  assert.ok(lease.signal.aborted && !lease.isHeld);
  const next = await locks.mutex('door').acquire();
  assert.ok(next.fence > lease.fence);
  assert.equal(await lease.release(), 'already-expired');
  assert.equal(await next.verify(), true);
});

test('a lease is lost when another client takes the lock, and its release leaves the other client alone', async () => {
  const locks = manager();
  // A manager repeats its first call once it has subscribed. After this, that is over.
  await (await locks.mutex('door').acquire()).release();
  const lease = await locks.mutex('door').acquire();
  await server.cli('SET', 'door', 'somebody', 'PX', '600000');
  void lease.verify();
  assert.equal(await soon('the loss', lease.lost), 'taken');
  await lease.release();
  assert.equal(await server.cli('GET', 'door'), 'somebody');
});

test('a loss is reported while the server is paused past the TTL', async () => {
  const locks = manager();
  const lease = await locks.mutex('door').acquire({ ttl: 400 });
  server.pause();
  ends.unshift(() => server.resume());
  assert.equal(await soon('the loss', lease.lost), 'expired');
  await assert.rejects(locks.mutex('door').acquire({ wait: 300 }), { code: 'unreachable' });
  server.resume();
  // Renewals that the server executes after the pause don't revive the lease.
  const next = await soon('the lock after the pause', locks.mutex('door').acquire());
  assert.ok(next.fence > lease.fence && await next.verify());
});

test('a server that comes back empty is used again', async () => {
  const locks = manager();
  const lease = await locks.mutex('door').acquire({ ttl: 900 });
  await server.restart();
  assert.match(await soon('the loss', lease.lost), /^(gone|expired)$/);
  const next = await soon('the lock', locks.mutex('door').acquire());
  assert.ok(next.fence > lease.fence);
});
