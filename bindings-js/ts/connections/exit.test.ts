/** An idle process ends, whatever the state of its connections. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

import { libraries } from '../testing/libraries.js';
import { Server } from '../testing/server.js';

/** Runs a program of `testing/` until it ends by itself. Returns what it has printed. */
async function run(t: TestContext, program: string, ...args: string[]): Promise<string> {
  const path = fileURLToPath(new URL(`../testing/${program}`, import.meta.url));
  const child = spawn(process.execPath, [path, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  child.stdout.on('data', (data) => (output += data));
  const code = await new Promise((resolve) => child.once('close', resolve));
  assert.equal(code, 0);
  return output;
}

for (const { name } of libraries) {
  for (const end of ['quiet', 'cut']) {
    test(`a_process_whose_subscription_is_${end}_ends_by_itself_with_${name}`, async (t) => {
      const server = await Server.start();
      t.after(() => server.kill());
      assert.equal(await run(t, 'subscriber-program.js', name, `${server.port}`, end), 'acknowledged\nthe client is closed\n');
    });
  }
}

for (const { name } of libraries.filter(({ name }) => name !== 'GLIDE 2')) {
  test(`a_process_whose_manager_left_a_replica_for_a_dead_address_ends_by_itself_with_${name}`, async (t) => {
    const replica = await Server.start('--replicaof', '127.0.0.1 1');
    t.after(() => replica.kill());
    assert.equal(await run(t, 'demoted-program.js', name, `${replica.port}`), 'the client is closed\n');
  });
}
