// Processes in Node and in Rust share one lock.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startServer } from '../support/server.mjs';
import { Worker } from '../support/worker.mjs';

const RUST = join(process.env.LEASEHOLD_WORKERS, 'demo-worker');
const NODE = [process.execPath, join(import.meta.dirname, '../examples/demo-worker.mjs')];
// A lease never ends by itself during the test, however slow the machine is.
const TTL = '600000';
/** How many turns of each worker are enough. */
const TURNS = 50;
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
  const turns = [];
  await Promise.all(writers.map(async (writer) => {
    for (let own = 0; own < TURNS; own++) turns.push(JSON.parse(await writer.report()));
  }));
  for (const writer of writers) {
    assert.deepEqual(await writer.end(), { code: 0, signal: null });
    for (let line = await writer.report(); line !== 'it has ended'; line = await writer.report()) turns.push(JSON.parse(line));
  }
  assert.deepEqual([...new Set(turns.map((turn) => turn.event))], ['done'], 'no write was refused');
  await judge.end();
  assert.deepEqual(JSON.parse(await judge.report()), { event: 'final', counter: turns.length, mirror: turns.length });

  // The account refuses a fence that is smaller than an earlier one, so the fences rise unless two are equal.
  assert.equal(new Set(turns.map((turn) => turn.fence)).size, turns.length, 'the fences rise');
});
