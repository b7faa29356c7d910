// Tests the lock component in Node, on the server at REDIS_URL, with a connection in JavaScript.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { locks } from './host.mjs';

const { LockManager } = await locks();
const redis = new Redis(process.env.REDIS_URL);
// On a slow machine, any process or server may stop for ten seconds. No test may fail because of that.
const generous = { claimWindowMs: 60_000n, responseTimeoutMs: 60_000n };
const PATIENCE = 120_000;
const open = () => LockManager.open({ tag: 'single', val: process.env.REDIS_URL }, generous);
const mutex = (name) => ({ tag: 'mutex', val: name });

after(() => {
  redis.disconnect();
  // The component's own connections are still open.
  setImmediate(() => process.exit());
});

test('a lock is taken, kept and given back', async () => {
  const manager = await open();
  const lease = await manager.acquire(mutex('kept'), { ttlMs: 30_000n });
  assert.equal(await redis.exists('kept'), 1);
  assert.equal(lease.mode(), 'exclusive');
  // Until the lease has been renewed, after a third of its TTL.
  for (let before = 0, left = Infinity; left <= before || before === 0;) {
    before = left;
    assert.deepEqual(await lease.hold(500n), { tag: 'held' });
    left = await redis.pttl('kept');
  }
  assert.equal(await lease.verify(), true);
  assert.equal(await lease.release(), 'released');
  assert.equal(await redis.exists('kept'), 0);
  assert.equal(lease.isHeld(), false);
});

test('a waiter is granted the lock by message, with a greater fence', async () => {
  const [one, other] = [await open(), await open()];
  const lease = await one.acquire(mutex('handed'), undefined);
  assert.equal(await other.tryAcquire(mutex('handed'), undefined), undefined);
  const waiting = other.acquire(mutex('handed'), undefined);
  await until(async () => await redis.zcount('leasehold:{handed}:queue', 0, '+inf') === 1);
  assert.notEqual((await redis.pubsub('CHANNELS', 'leasehold:*')).length, 0);
  await lease.release();
  const next = await waiting;
  assert.ok(next.fence() > lease.fence());
  await next.release();
});

test('readers share, and exclude a writer', async () => {
  const [one, other] = [await open(), await open()];
  const read = { tag: 'read', val: 'doc' };
  const readers = [await one.acquire(read, undefined), await other.acquire(read, undefined)];
  assert.equal(await one.tryAcquire({ tag: 'write', val: 'doc' }, undefined), undefined);
  for (const reader of readers) assert.equal(await reader.release(), 'released');
  const writer = await one.acquire({ tag: 'write', val: 'doc' }, undefined);
  assert.equal(await writer.release(), 'released');
});

test('several names are one lease with a fence for each', async () => {
  const [one, other] = [await open(), await open()];
  const both = (names) => ({ tag: 'multi', val: { parts: names.map((val) => ({ tag: 'mutex', val })), oneScript: false } });
  const lease = await one.acquire(both(['to', 'from']), undefined);
  // jco returns lists as promises, even though the call is synchronous.
  assert.deepEqual((await lease.fences()).map(([name]) => name), ['to', 'from']);
  assert.equal(await other.tryAcquire(both(['from', 'to']), undefined), undefined);
  assert.equal(await lease.release(), 'released');
  await assert.rejects(one.acquire(both(['to', 'to']), undefined), (thrown) => thrown.payload.kind.val === 'names');
});

test('a quorum of one server under three names is refused', async () => {
  const url = process.env.REDIS_URL;
  const urls = [url, url.replace('127.0.0.1', 'localhost'), url.replace('127.0.0.1', '[::ffff:127.0.0.1]')];
  const open = LockManager.open({ tag: 'quorum', val: urls }, { nodeTimeoutMs: 60_000n });
  await assert.rejects(open, (thrown) => thrown.payload.kind.tag === 'invalid-option' && thrown.payload.kind.val === 'servers');
});

test('cut connections cost no lease', async () => {
  const manager = await open();
  const lease = await manager.acquire(mutex('cut'), { ttlMs: 60_000n });
  for (const type of ['normal', 'pubsub']) await redis.client('KILL', 'TYPE', type, 'SKIPME', 'yes');
  assert.deepEqual(await lease.hold(100n), { tag: 'held' });
  assert.equal(await lease.verify(), true);
  await lease.release();
});

// A promise can't be cancelled, so the component doesn't learn that its caller has given up.
test('a call that nobody awaits any more goes on, and its lease ends with its TTL', async () => {
  const [one, other] = [await open(), await open()];
  const lease = await one.acquire(mutex('left'), { ttlMs: 600_000n });
  let granted;
  other.acquire(mutex('left'), { ttlMs: 500n, waitMs: 600_000n }).then((lease) => { granted = lease; });
  await until(async () => await redis.zcount('leasehold:{left}:queue', 0, '+inf') === 1);
  await lease.release();
  await until(() => granted !== undefined);
  await until(async () => await redis.exists('left') === 0);
  assert.equal(granted.isHeld(), false);
});

test('an error has its stable code', async () => {
  const manager = await open();
  const lease = await manager.acquire(mutex('busy'), undefined);
  const other = await open();
  const error = await other.acquire(mutex('busy'), { waitMs: 200n }).then(assert.fail, (thrown) => thrown.payload);
  assert.equal(error.kind.tag, 'busy');
  assert.equal(error.retryable, true);
  await assert.rejects(manager.acquire(mutex(''), undefined), (thrown) => thrown.payload.kind.tag === 'invalid-option');
  await lease.release();
});

// A call that has no answer in time is given up. Its answer comes later, and must harm nothing, not even after its manager is gone.
test('a server that stalls for longer than the response timeout costs no more than the calls of that time', async () => {
  for (let round = 0; round < 3; round++) {
    const options = { claimWindowMs: 60_000n, responseTimeoutMs: 500n };
    const managers = await Promise.all([1, 2].map(() => LockManager.open({ tag: 'single', val: process.env.REDIS_URL }, options)));
    await redis.client('PAUSE', 2_000, 'ALL');
    const tries = Array.from({ length: 30 }, (_, number) => managers[number % 2].acquire(mutex(`stalled-${number}`), { waitMs: 700n }));
    const errors = (await Promise.allSettled(tries)).filter(({ status }) => status === 'rejected').map(({ reason }) => reason);
    assert.deepEqual(new Set(errors.map((thrown) => thrown.payload?.kind.tag ?? thrown)), new Set(['unreachable']));
    const [dropped, manager] = managers;
    dropped[Symbol.dispose]();
    await redis.ping();
    await until(async () => {
      const lease = await manager.acquire(mutex('stalled'), undefined).catch((thrown) => thrown.payload);
      return await lease.release?.().catch((thrown) => thrown.payload.kind.tag) === 'released';
    });
  }
});

test('no update is lost among managers that take turns', async () => {
  const managers = await Promise.all(Array.from({ length: 4 }, open));
  let last = 0n;
  let counter = 0;
  await Promise.all(managers.map(async (manager) => {
    for (let round = 0; round < 25; round++) {
      const lease = await manager.acquire(mutex('counter'), undefined);
      assert.ok(lease.fence() > last);
      last = lease.fence();
      const seen = counter;
      await sleep(1);
      counter = seen + 1;
      await lease.release();
    }
  }));
  assert.equal(counter, 100);
});

async function until(condition) {
  const end = Date.now() + PATIENCE;
  while (!await condition()) {
    assert.ok(Date.now() < end, 'not in time');
    await sleep(5);
  }
}
