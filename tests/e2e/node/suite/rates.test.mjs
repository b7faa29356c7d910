// Processes in Node and in Rust share the window of a rate.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { startServer } from '../support/server.mjs';
import { LANGUAGES, startWorker } from '../support/worker.mjs';

/** Longer than any test, however slow the machine is. */
const LONG = 3_600_000;
let server;
let redis;
let locks;

before(async () => {
  server = await startServer();
  redis = new Redis(server.port);
  locks = new LockManager(redis, { responseTimeout: '60s' });
});
after(async () => {
  await locks.close();
  redis.disconnect();
  await server.stop();
});

/** A process in Rust that takes a permit of this semaphore for each order. */
function startRust(name) {
  const worker = startWorker(LANGUAGES.Rust, server, name, { mode: 'permits', ttl: LONG, claimWindow: 3_000 });
  const ask = (...words) => {
    worker.order(words.join(' '));
    return worker.next();
  };
  return { ask, end: () => worker.end() };
}

/** What this process gets, in the words of the other one. */
async function told(attempt) {
  try {
    const lease = await attempt;
    return lease === null ? 'busy' : `started ${lease.fence}`;
  } catch (error) {
    return error.code;
  }
}

test('processes in Node and in Rust have one window, and name it alike on the server', async () => {
  const rust = startRust('api');
  const ask = (limit, ...per) => rust.ask('try', limit, ...per);
  const tries = (limit, per) => told(locks.semaphore('api', { limit, per }).tryAcquire());
  const started = [await ask(3, LONG), await tries(3, LONG), await ask(3, LONG)];
  const fences = started.map((line) => Number(line.replace(/^started /, '')));
  assert.ok(fences[0] < fences[1] && fences[1] < fences[2], `${started}`);
  assert.deepEqual([await tries(3, LONG), await ask(3, LONG)], ['busy', 'busy'], 'the window is full for both');

  const { used, limit, fence, per, ...permits } = await redis.hgetall('leasehold:{api}:permits');
  assert.deepEqual({ used, limit, fence, per }, { used: '3', limit: '3', fence: `${fences[2]}`, per: `${LONG}` });
  assert.deepEqual(Object.values(permits), [`1/3/${LONG}`, `1/3/${LONG}`, `1/3/${LONG}`]);

  for (const other of [[], [LONG / 2]]) {
    assert.deepEqual([await tries(3, ...other), await ask(3, ...other)], ['wrong-kind', 'wrong-kind'], `per ${other}`);
  }
  assert.deepEqual([await tries(5, LONG), await ask(5, LONG)].map((line) => line.replace(/ .*/, '')), ['started', 'started']);
  await rust.end();
});

test('a semaphore that is no rate refuses a rate, in Node and in Rust', async () => {
  const rust = startRust('jobs');
  const held = await locks.semaphore('jobs', { limit: 3 }).acquire();
  assert.equal(await rust.ask('try', 3, LONG), 'wrong-kind');
  await held.release();
  assert.match(await rust.ask('try', 3, LONG), /^started /);
  assert.equal(await told(locks.semaphore('jobs', { limit: 3 }).tryAcquire()), 'wrong-kind');
  await rust.end();
});

test('callers in Node and in Rust that wait for one rate start one after the other', async () => {
  const PER = 200;
  const rust = startRust('calls');
  const rate = locks.semaphore('calls', { limit: 1, per: PER });
  const turns = { Node: () => told(rate.acquire()), Rust: () => rust.ask('wait', 1, PER) };
  const fences = await Promise.all(Object.values(turns).map(async (start) => {
    const own = [];
    for (let turn = 0; turn < 5; turn++) own.push(Number((await start()).replace(/^started /, '')));
    return own;
  }));
  const [first, ...others] = fences.flat().sort((one, other) => one - other);
  // A fence is the server's µs at the grant. Only the first one of a server is about a millisecond ahead.
  others.reduce((last, fence) => {
    assert.ok(fence - last > (PER - 2) * 1_000, `${fence - last} us from one start to the next`);
    return fence;
  }, first);
  assert.equal(new Set([first, ...others]).size, 10);
  await rust.end();
});
