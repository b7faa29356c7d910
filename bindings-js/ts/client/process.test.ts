/** Tests what keeps a process alive and what does not. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Fleet, unique } from '../testing/fleet.js';
import { startSentinel } from '../testing/topologies.js';

const fleet = await Fleet.start();
const program = fileURLToPath(new URL('../testing/exit-program.js', import.meta.url));

/** Starts a process that does one thing. Its connection does not keep it alive. */
function start(what: string, name: string, port = `${fleet.server.port}`): { ended: Promise<number | null>; output: () => string } {
  const child = spawn(process.execPath, [program, port, what, name], { stdio: ['ignore', 'pipe', 'inherit'] });
  after(() => void child.kill('SIGKILL'));
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  return { ended: once(child, 'exit').then(([code]) => code as number | null), output: () => output };
}

for (const what of ['nothing', 'released', 'waited', 'held', 'aborted', 'timed-out', 'given-up', 'unanswered']) {
  test(`a_process_ends_by_itself_when_all_it_has_is_${what}`, async () => {
    const name = unique();
    const lease = what === 'waited' || what === 'aborted' || what === 'timed-out' ? await fleet.manager().mutex(name).acquire() : undefined;
    const { ended, output } = start(what, name);
    if (what === 'waited') {
      await fleet.waiting(name, 1);
      await lease?.release();
    }
    assert.equal(await ended, 0);
    assert.equal(output(), 'done\n');
    await lease?.release();
  });
}

test('behind_sentinel_what_is_held_or_idle_keeps_no_process_alive_either', async (t) => {
  const { sentinel } = await startSentinel(t);
  for (const what of ['released', 'held']) {
    const { ended, output } = start(what, unique(), `sentinel:${sentinel.port}`);
    assert.equal(await ended, 0, what);
    assert.equal(output(), 'done\n');
  }
});

test('a_process_stays_alive_while_it_waits', async () => {
  const name = unique();
  const lease = await fleet.manager().mutex(name).acquire();
  const { ended, output } = start('waited', name);
  await fleet.waiting(name, 1);
  const early = await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 2_000, 'alive'))]);
  assert.equal(early, 'alive');
  await lease.release();
  assert.equal(await ended, 0);
  assert.equal(output(), 'done\n');
});
