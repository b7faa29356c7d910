/** Memory does not grow, however long a process lives. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Lease, LockManager } from '../index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { memory } from '../engine/wasm/inline.js';

const fleet = await Fleet.start();

/** What a round may add to the memory in use without a leak, in bytes. Its noise is of both signs. */
const NOISE = 256 * 1024;
/** The smallest leak that must be seen: one small object for each item. */
const SMALLEST = 64;

/** The memory in use after a garbage collection, in bytes. */
async function inUse(): Promise<{ wasm: number; heap: number }> {
  // What the last calls have scheduled runs first. A collection schedules clean-up, whose garbage the next one takes.
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    gc?.();
  }
  return { wasm: memory.buffer.byteLength, heap: process.memoryUsage().heapUsed };
}

/** The first rounds may need more memory. A leak grows in every round. */
async function doesNotGrow(what: (count: number) => Promise<void>, count: number): Promise<void> {
  assert.ok(gc, 'run with --expose-gc');
  assert.ok(count * SMALLEST > NOISE, 'the smallest leak would not be seen');
  await what(Math.ceil(count / 10));
  const seen = [await inUse()];
  for (let round = 0; round < 8; round++) {
    const before = seen[round] ?? assert.fail();
    await what(count);
    const after = await inUse();
    seen.push(after);
    if (after.wasm <= before.wasm && after.heap < before.heap + NOISE) return;
  }
  assert.fail(`it grows: ${JSON.stringify(seen)}`);
}

/** What one held lease of a mutex may take, in bytes: in the engine and in JavaScript. */
const MOST_OF_A_LEASE = 2_000;

test('ten_thousand_leases_take_less_than_2_kilobytes_each', async () => {
  assert.ok(gc, 'run with --expose-gc');
  const [locks, prefix, count] = [fleet.manager(), unique(), 10_000];
  const leases: Lease[] = [];
  const before = await inUse();
  while (leases.length < count) {
    leases.push(...await Promise.all(Array.from({ length: 100 }, (_, i) => locks.mutex(`${prefix}:${leases.length + i}`).acquire({ ttl: '10m' }))));
  }
  const after = await inUse();
  const [wasm, heap] = [after.wasm - before.wasm, after.heap - before.heap].map((bytes) => bytes / count) as [number, number];
  assert.ok(wasm + heap < MOST_OF_A_LEASE, `a lease takes ${wasm} bytes in the engine and ${heap} in JavaScript`);
  await locks.close();
});

test('ten_thousand_cycles_leave_nothing', async () => {
  const locks = fleet.manager();
  const prefix = unique();
  await doesNotGrow(async (count) => {
    let left = count;
    await Promise.all(Array.from({ length: 64 }, async (_, task) => {
      // Half of the tasks have a lock of their own, the others share one.
      const lock = task % 2 === 0 ? locks.mutex(`${prefix}:${task}`) : locks.mutex(prefix);
      while (left-- > 0) {
        const lease = await lock.acquire();
        if (left % 3 === 0) void lease.signal;
        if (left % 5 === 0) void lease.lost;
        await lease.release();
      }
    }));
  }, 10_000);
});

test('waits_that_end_leave_nothing', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await others.mutex(name).acquire();
  await doesNotGrow(async (count) => {
    for (let i = 0; i < count; i += 100) {
      const { signal } = new AbortController();
      const controller = new AbortController();
      const waits = Array.from({ length: 100 }, (_, j) =>
        caught(locks.mutex(name).acquire(j % 2 === 0 ? { signal: controller.signal } : { wait: 5, signal })));
      setImmediate(() => controller.abort());
      await Promise.all(waits);
    }
  }, 5_000);
  await lease.release();
});

test('managers_that_are_closed_leave_nothing', async () => {
  const redis = fleet.client();
  await redis.ping();
  await doesNotGrow(async (count) => {
    for (let i = 0; i < count; i++) {
      const locks = new LockManager(redis);
      await locks.mutex('a').run(() => {});
      await locks.close();
    }
  }, 5_000);
  assert.equal(redis.listenerCount('close') + redis.listenerCount('end'), 0);
});

test('managers_that_are_refused_leave_nothing', async () => {
  const redis = fleet.client();
  await redis.ping();
  await doesNotGrow(async (count) => {
    for (let i = 0; i < count; i++) assert.throws(() => new LockManager(redis, { claimWindow: '1ms' }), { code: 'invalid-option', field: 'claimWindow' });
  }, 5_000);
});
