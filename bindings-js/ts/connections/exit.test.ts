/** An idle process ends, whatever the state of its connections. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { libraries } from '../testing/libraries.js';
import { Server } from '../testing/server.js';

const PROGRAM = fileURLToPath(new URL('../testing/subscriber-program.ts', import.meta.url));

for (const { name } of libraries) {
  for (const end of ['quiet', 'cut']) {
    test(`a_process_whose_subscription_is_${end}_ends_by_itself_with_${name}`, async (t) => {
      const server = await Server.start();
      t.after(() => server.kill());
      const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, name, `${server.port}`, end], { stdio: ['ignore', 'pipe', 'inherit'] });
      t.after(() => child.kill('SIGKILL'));
      let output = '';
      child.stdout.on('data', (data) => (output += data));
      const code = await new Promise((resolve) => child.once('exit', resolve));
      assert.equal(code, 0);
      assert.equal(output, 'acknowledged\nthe client is closed\n');
    });
  }
}
