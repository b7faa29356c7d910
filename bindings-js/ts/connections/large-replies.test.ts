/** A server that answers a lock's command with tens of megabytes costs little memory and no time. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught } from '../testing/expect.js';
import { GENEROUS } from '../testing/generous.js';
import { libraries } from '../testing/libraries.js';

const MB = 1_000_000;
const REPLY = 30 * MB;

/** A process that answers scripts with a text of this size, and other commands as a server would. It reports how much of each answer was read. */
const TOY = `
  const body = Buffer.concat([Buffer.from('$${REPLY}\\r\\n'), Buffer.alloc(${REPLY}, 120), Buffer.from('\\r\\n')]);
  require('node:net').createServer((socket) => {
    socket.on('error', () => {});
    socket.on('close', () => console.log(socket.bytesWritten - socket.writableLength));
    socket.on('data', (data) => {
      for (const [, word] of String(data).matchAll(/\\*\\d+\\r\\n\\$\\d+\\r\\n(\\w+)/g)) {
        const name = word.toUpperCase();
        if (name.startsWith('EVAL')) socket.write(body);
        else if (name === 'INFO') socket.write('$20\\r\\nredis_version:7.0.15\\r\\n');
        else if (name === 'HELLO') socket.write('%1\\r\\n$6\\r\\nserver\\r\\n$5\\r\\nredis\\r\\n');
        else socket.write('+OK\\r\\n');
      }
    });
  }).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
`;

async function startToy(t: TestContext): Promise<{ port: number; taken: () => number }> {
  const child = spawn(process.execPath, ['-e', TOY], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  let lines = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (lines += text));
  while (!lines.includes('\n')) await once(child.stdout, 'data');
  const [port, ...rest] = lines.trim().split('\n');
  assert.deepEqual(rest, []);
  return { port: Number(port), taken: () => Math.max(0, ...lines.trim().split('\n').slice(1).map(Number)) };
}

for (const library of libraries) {
  if (library.name === 'GLIDE 2') continue; // GLIDE's core reads the replies, outside of JavaScript.
  describe(library.name, () => {
    test('a_reply_of_30_mb_exceeds_no_time_and_holds_little_memory', async (t) => {
      const toy = await startToy(t);
      const { client, close } = await library.open(toy.port);
      const locks = new LockManager(client, GENEROUS);
      t.after(() => close().catch(() => {}));
      globalThis.gc?.();
      const before = process.memoryUsage().rss;
      let peak = before;
      const look = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 5);
      t.after(() => clearInterval(look));

      const error = await caught(locks.mutex('a').acquire({ wait: 2_000 }));
      peak = Math.max(peak, process.memoryUsage().rss);
      assert.ok(isLeaseholdError(error), String(error));
      await locks.close();
      const grown = (peak - before) / MB;
      t.diagnostic(`${error.code}, ${Math.trunc(grown)} MB more at most: ${error.message}`);
      assert.ok(['protocol', 'unreachable'].includes(error.code), String(error));
      // node-redis does not expose its socket, so it reads the reply to its end, once.
      const most = library.name.startsWith('ioredis') ? 60 : 150;
      assert.ok(grown < most, `${grown} MB`);
    });
  });
}

test('ioredis_drops_the_connection_of_a_reply_that_does_not_end_and_leaves_the_users_own_alone', async (t) => {
  for (const { name, open } of libraries.filter((library) => library.name.startsWith('ioredis'))) {
    const toy = await startToy(t);
    const { client, run, close } = await open(toy.port);
    const locks = new LockManager(client, GENEROUS);
    const theirs = (await run('EVAL', 'return 1', '0')) as string;
    assert.equal(theirs.length, REPLY, 'a reply of the user\'s own is theirs, however large');
    const error = await caught(locks.mutex('a').acquire({ wait: 5_000 }));
    assert.ok(isLeaseholdError(error, 'unreachable'), `${name}: ${String(error)}`);
    assert.match(error.message, /a reply of more than 4 MiB/);
    await locks.close();
    await close();
  }
});
