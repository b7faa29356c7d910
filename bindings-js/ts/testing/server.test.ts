/** A test's server is its own: many tests start servers at the same time, on ports that are free at that moment. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server as Listener } from 'node:net';
import { test } from 'node:test';

import { until } from './expect.js';
import { Server } from './server.js';

test('a_restart_waits_while_another_program_answers_on_the_port', async (t) => {
  const server = await Server.start();
  t.after(() => server.kill());
  await server.kill();
  let asked = 0;
  const other = createServer((socket) => socket.on('error', () => {}).on('data', () => (asked++, socket.end('+PONG\r\n'))));
  other.listen(server.port, '127.0.0.1');
  await once(other, 'listening');
  t.after(() => other.close());
  let isBack = false;
  const restarted = server.restart().then(() => (isBack = true));
  // It was started a second time, because the first one found its port taken.
  await until(async () => asked > 1 || isBack);
  assert.equal(isBack, false);
  await closed(other);
  await restarted;
});

function closed(listener: Listener): Promise<unknown> {
  return new Promise((resolve) => listener.close(resolve));
}
