// Processes in Node and in Rust share one lock.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startServer } from '../support/server.mjs';
import { Worker } from '../support/worker.mjs';

const RUST = join(process.env.LEASEHOLD_WORKERS, 'demo-worker');
const NODE = [process.execPath, join(import.meta.dirname, '../examples/demo-worker.mjs')];
const TTL = '2000';
let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** Starts a worker of the demo. All of them have the same output. */
async function start(program, ...words) {
  const [command, ...rest] = [program].flat();
  const worker = new Worker(spawn(command, [...rest, ...words], {
    stdio: ['pipe', 'pipe', 'inherit'], detached: true, env: { ...process.env, REDIS_URL: server.url },
  }));
  assert.equal(JSON.parse(await worker.report()).event, 'ready');
  return worker;
}

test('two processes in Node and one in Rust lose no update of one counter', async () => {
  const judge = await start(RUST, 'judge', 'fleet:', TTL);
  const writers = [
    await start(NODE, 'writer', 'fleet:', TTL), await start(NODE, 'writer', 'fleet:', TTL), await start(RUST, 'writer', 'fleet:', TTL),
  ];
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const turns = [];
  for (const writer of writers) {
    assert.deepEqual(await writer.end(), { code: 0, signal: null });
    const own = [];
    for (let line = await writer.report(); line !== 'it has ended'; line = await writer.report()) own.push(JSON.parse(line));
    assert.ok(own.length > 0, 'each worker had a turn');
    turns.push(...own);
  }
  assert.deepEqual([...new Set(turns.map((turn) => turn.event))], ['done'], 'no worker was late');
  await judge.end();
  assert.deepEqual(JSON.parse(await judge.report()), { event: 'final', counter: turns.length, mirror: turns.length });

  turns.sort((a, b) => a.granted - b.granted);
  for (let i = 1; i < turns.length; i++) assert.ok(turns[i].fence > turns[i - 1].fence, 'the fences rise');
});
