// The packed `leasehold/without-scripts`, on a server that refuses scripts.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

test('a program with ioredis and node-redis, which ends by itself', async () => {
  const server = await startServer();
  try {
    await server.cli('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-@scripting');
    const env = { ...process.env, REDIS_URL: `redis://app:secret@127.0.0.1:${server.port}` };
    const { stdout } = await promisify(execFile)(process.execPath, ['programs/without-scripts.mjs'], {
      cwd: join(import.meta.dirname, '..'), timeout: 600_000, env,
    });
    assert.equal(stdout, 'toured\ntoured\nheld without scripts, and auth with them\n');
  } finally {
    await server.stop();
  }
});

test('it can be required, and is the same as the imported one', async () => {
  const imported = await import('leasehold/without-scripts');
  assert.equal(createRequire(import.meta.url)('leasehold/without-scripts').withoutScripts, imported.withoutScripts);
  const { InvalidOptionError } = await import('leasehold');
  assert.throws(() => imported.withoutScripts(null), InvalidOptionError);
});
