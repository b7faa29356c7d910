// Measures how long a program waits for its first lock.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

test('the import and the first lock take less than half the time of loading the client library', async () => {
  const runs = [];
  for (let i = 0; i < 7; i++) runs.push(await measured());
  const ratios = runs.map(({ client, lock }) => lock / client).sort((a, b) => a - b);
  const times = runs.map(({ lock }) => lock).sort((a, b) => a - b);
  // Milliseconds depend on the machine, so compare the ratio within one run.
  console.log(`import to first lock: ${times[3].toFixed(1)} ms (${times[0].toFixed(1)} to ${times[6].toFixed(1)}), ${ratios[3].toFixed(2)} of loading ioredis`);
  assert.ok(ratios[3] < 0.5, `${ratios[3]}`);
});

async function measured() {
  const options = { cwd: join(import.meta.dirname, '..'), env: { ...process.env, REDIS_URL: server.url } };
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', 'programs/first-lock.mjs'], options);
  return JSON.parse(stdout);
}
