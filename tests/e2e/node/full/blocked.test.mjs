// An event loop that is blocked for longer than the TTL. It measures time, so nothing else may run on the machine.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const project = join(import.meta.dirname, '..');
let server;

before(async () => (server = await startServer()));
after(() => server.stop());

test('an event loop that is blocked for 5 s keeps a lease with a TTL of 1 s', async () => {
  const env = { ...process.env, REDIS_URL: server.url, TTL: '1s', BLOCKED: '5000', STARTS_IN: '2000' };
  for (const program of ['programs/blocked.mjs', 'programs/blocked.cjs']) {
    const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: project, timeout: 60_000, env });
    assert.equal(stdout, 'kept released\n');
  }
});
