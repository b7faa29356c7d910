/** Where nobody answers, an error says where that is and why. */

import assert from 'node:assert/strict';
import type { EventEmitter } from 'node:events';
import { describe, test } from 'node:test';

import { isLeaseholdError, LockManager } from './index.js';
import { caught } from './testing/caught.js';
import { libraries, type Library } from './testing/libraries.js';
import { Server } from './testing/server.js';

for (const library of libraries) {
  describe(library.name, () => {
    test('a_server_that_is_dead_or_silent_is_named_and_the_librarys_error_kept', async (t) => {
      const { error, port } = await ofDeadServer(library, t);
      assert.match(error.message, new RegExp(`^the server at 127\\.0\\.0\\.1:${port} did not answer`));
      assert.equal(error.server, `127.0.0.1:${port}`);
      assert.ok(error.cause instanceof Error, String(error.cause));
      if (library.name === 'GLIDE 2') return;
      assert.match(error.message, /ECONNREFUSED/);
      assert.equal((error.cause as { code?: string }).code, 'ECONNREFUSED');
    });
  });
}

test('an_ioredis_client_that_nobody_listens_to_is_named_too', async (t) => {
  const library = libraries.find(({ name }) => name === 'ioredis 6')!;
  const silent = t.mock.method(console, 'error', () => {});
  const { error, port } = await ofDeadServer(library, t, (client) => void (client as EventEmitter).removeAllListeners('error'));
  assert.match(error.message, new RegExp(`ECONNREFUSED 127\\.0\\.0\\.1:${port}`));
  assert.ok(silent.mock.callCount() > 0, 'the library still complains of a client without a listener');
});

test('a_server_that_does_not_answer_is_named', async (t) => {
  const server = await Server.start();
  t.after(() => server.kill());
  const { client, close } = await libraries[1]!.open(server.port);
  t.after(close);
  const locks = new LockManager(client, { responseTimeout: 50 });
  server.pause();
  const error = await caught(locks.mutex('a').tryAcquire());
  assert.ok(isLeaseholdError(error, 'unreachable'));
  assert.equal(error.message, `the server at 127.0.0.1:${server.port} did not answer within ${error.waited} ms; the last attempt: no answer in time`);
  await locks.close();
});

type Test = Parameters<NonNullable<Parameters<typeof test>[0]>>[0];

async function ofDeadServer(library: Library, t: Test, prepare: (client: object) => void = () => {}) {
  const server = await Server.start();
  const { client, close } = await library.open(server.port);
  t.after(close);
  prepare(client);
  const locks = new LockManager(client, { responseTimeout: 500 });
  t.after(() => locks.close());
  await (await locks.mutex('a').acquire()).release();
  // A GLIDE client that is closed while its server is dead may keep the process alive.
  if (library.name === 'GLIDE 2') server.pause();
  else await server.kill();
  const error = await caught(locks.mutex('a').acquire({ wait: 600 }));
  server.resume();
  assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
  return { error, port: server.port };
}
