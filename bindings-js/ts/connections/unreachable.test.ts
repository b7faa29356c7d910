/** If no server answers, the error names the server and the cause. */

import assert from 'node:assert/strict';
import type { EventEmitter } from 'node:events';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught } from '../testing/expect.js';
import { GENEROUS, IMPATIENT } from '../testing/generous.js';
import { libraries, type Library } from '../testing/libraries.js';
import { Server } from '../testing/server.js';

for (const library of libraries) {
  describe(library.name, () => {
    test('a_server_that_is_dead_or_silent_is_named_and_the_librarys_error_kept', async (t) => {
      const { error, port } = await ofDeadServer(library, t);
      assert.match(error.message, new RegExp(`^lock \`a\`: (?:127\\.0\\.0\\.1:${port} was not available|no answer from 127\\.0\\.0\\.1:${port}) within `));
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
  assert.ok(silent.mock.callCount() > 0, 'the library still warns about a client without a listener');
});

for (const version of ['ioredis-5', 'ioredis-6'] as const) {
  test(`a_login_that_the_server_refuses_is_auth_and_not_unreachable (${version})`, async (t) => {
    const server = await Server.start('--requirepass', 'secret');
    t.after(() => server.kill());
    const { Redis } = (await import(version)) as typeof import('ioredis-6');
    const client = new Redis(server.port, '127.0.0.1', { password: 'wrong', retryStrategy: () => 20 });
    t.after(() => client.disconnect());
    client.on('error', () => {});
    const locks = new LockManager(client, GENEROUS);
    t.after(() => locks.close());
    const error = await caught(locks.mutex('a').acquire());
    assert.ok(isLeaseholdError(error, 'auth'), String(error));
    assert.match(error.message, /WRONGPASS/);
  });
}

test('a_server_that_does_not_answer_is_named', async (t) => {
  const server = await Server.start();
  t.after(() => server.kill());
  const { client, close } = await libraries[1]!.open(server.port);
  t.after(close);
  const locks = new LockManager(client, IMPATIENT);
  server.pause();
  const error = await caught(locks.mutex('a').tryAcquire());
  assert.ok(isLeaseholdError(error, 'unreachable'));
  assert.equal(error.message, `lock \`a\`: no answer from 127.0.0.1:${server.port} within ${error.waited} ms`);
  await locks.close();
});

test('an_unreachable_always_has_a_cause_and_its_message_carries_it', async (t) => {
  const server = await Server.start();
  t.after(() => server.kill());
  for (const { open } of libraries) {
    const { client, close } = await open(server.port);
    t.after(close);
    const locks = new LockManager(client, IMPATIENT);
    const lease = await locks.mutex('held').acquire();
    server.pause();
    const calls = { acquire: () => locks.mutex('a').acquire({ wait: 50 }), tryAcquire: () => locks.mutex('b').tryAcquire({ wait: 50 }), release: () => lease.release(), inspect: () => locks.inspect('c') };
    await Promise.all(Object.entries(calls).map(async ([what, call]) => {
      const error = await caught(call());
      assert.ok(isLeaseholdError(error, 'unreachable'), `${what}: ${String(error)}`);
      assert.ok(error.cause instanceof Error, `${what}: ${error.message} has the cause ${String(error.cause)}`);
      const words = error.cause.message === 'no answer in time' ? 'no answer from' : error.cause.message;
      assert.ok(error.message.includes(words), `${what}: ${error.message}, not ${words}`);
    }));
    server.resume();
    await locks.close();
  }
});

test('a_quorum_that_is_gone_has_a_cause_as_well', async (t) => {
  const servers = await Promise.all([1, 2, 3].map(() => Server.start()));
  t.after(() => Promise.all(servers.map((server) => server.kill())));
  const opened = await Promise.all(servers.map(({ port }) => libraries[1]!.open(port)));
  t.after(() => Promise.all(opened.map(({ close }) => close())));
  const locks = await LockManager.quorum(opened.map(({ client }) => client));
  t.after(() => locks.close());
  for (const server of servers) server.pause();
  const error = await caught(locks.mutex('a').acquire({ wait: 300 }));
  for (const server of servers) server.resume();
  assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
  assert.ok(error.cause instanceof Error, String(error.cause));
});

test('of_a_server_that_says_a_lot_in_an_error_only_the_beginning_is_kept', async () => {
  for (const text of [`ERR ${'x'.repeat(5_000_000)}`, `NOPERM ${'x'.repeat(5_000_000)}`, `x${'y'.repeat(5_000_000)}`]) {
    const locks = new LockManager({ call: async () => Promise.reject(new Error(text)) }, GENEROUS);
    const error = await caught(locks.mutex('a').acquire({ wait: 50 }));
    assert.ok(isLeaseholdError(error));
    assert.ok(error.message.length < 2_000, `${error.code} with ${error.message.length} characters`);
    // The library's own message is unchanged.
    if (error.code !== 'unreachable') assert.ok(inspect(error).length < 10_000, `${error.code} shown as ${inspect(error).length} characters`);
    await locks.close();
  }
});

type Test = Parameters<NonNullable<Parameters<typeof test>[0]>>[0];

async function ofDeadServer(library: Library, t: Test, prepare: (client: object) => void = () => {}) {
  const server = await Server.start();
  const { client, close } = await library.open(server.port);
  t.after(close);
  prepare(client);
  const locks = new LockManager(client, GENEROUS);
  t.after(() => locks.close());
  await (await locks.mutex('a').acquire()).release();
  // A GLIDE client that is closed while its server is dead may keep the process alive.
  if (library.name === 'GLIDE 2') server.pause();
  else await server.kill();
  const error = await caught(locks.mutex('a').acquire({ wait: 2_000 }));
  server.resume();
  assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
  return { error, port: server.port };
}
