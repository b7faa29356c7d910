/** What crosses in the record of inputs, beyond the transcripts of `vectors.test.ts`, whose inputs are small. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Reply } from '../connections/index.js';
import { MANAGER_DEFAULTS } from '../support/options.generated.js';
import { Engine } from './engine.js';
import type { Outcome } from './outcomes.generated.js';
import type { Outputs } from './output-reader.js';
import { type AcquireSettings, type Config, type LockSpec, PLAIN } from './types.js';

const SETTINGS: AcquireSettings = { ttl: 30_000, renew: true, maxHold: undefined, wait: undefined };
const CONFIG: Config = { ...MANAGER_DEFAULTS, batches: false, ahead: false };

function engine(): { engine: Engine; sent: { id: number; words: string[] }[]; ended: Outcome[] } {
  const sent: { id: number; words: string[] }[] = [];
  const ended: Outcome[] = [];
  const outputs: Outputs = {
    send: (id, _node, { words }) => sent.push({ id, words }),
    sendDedicated: () => {},
    closeDedicated: () => {},
    subscribe: () => {},
    unsubscribe: () => {},
    completed: (_, outcome) => ended.push(outcome),
    lost: () => {},
  leader: () => {},
  };
  return { engine: new Engine(new Uint8Array(16), CONFIG, outputs), sent, ended };
}

function plain(name: string): LockSpec {
  return { name, mode: 'exclusive', kind: PLAIN };
}

test('a_reply_of_any_length_is_read_whole', () => {
  const { engine: inspecting, sent, ended } = engine();
  for (const count of [0, 1, 2_000, 2, 50_000]) {
    const tokens = Array.from({ length: count }, (_, at) => `00000000-0000-4000-8000-00000000000b:${at + 1}`);
    inspecting.inspect(1, 'door');
    const waiters = tokens.flatMap((token) => [token, 'exclusive 30000 3000 33 1 1700000004000', 1_700_000_000_000_000]);
    const reply: Reply = [1_700_000_000_000_000, '', -2, 0, 0, count, ...waiters];
    inspecting.reply(sent.pop()?.id ?? 0, reply);
    const outcome = ended.pop();
    assert.ok(outcome?.kind === 'inspected', JSON.stringify(outcome));
    assert.deepEqual(outcome.inspection.waiters.map(({ token }) => token), tokens);
  }
  inspecting.free();
});

test('an_input_follows_one_that_has_moved_the_record', () => {
  const { engine: one, sent } = engine();
  const { engine: other, sent: othersSent } = engine();
  const names = Array.from({ length: 256 }, (_, at) => `{door}${at}`);
  const several: LockSpec = { name: names.join(), mode: 'exclusive', kind: { type: 'multi', parts: names.map(plain), oneScript: true } };
  one.acquire(1, several, SETTINGS);
  assert.deepEqual(names.filter((name) => sent.at(-1)?.words.includes(name)), names);
  for (const [its, commands] of [[one, sent], [other, othersSent]] as const) {
    its.acquire(2, plain('ключ\u{1F512}'), SETTINGS);
    assert.ok(commands.at(-1)?.words.includes('ключ\u{1F512}'), commands.at(-1)?.words.join(' '));
    its.free();
  }
});

test('a_number_out_of_range_is_a_bug_and_no_absent_number', () => {
  const { engine: refusing } = engine();
  for (const wait of [-1, -Infinity]) {
    assert.throws(() => refusing.acquire(1, plain('door'), { ...SETTINGS, wait }), RangeError);
  }
  assert.throws(() => refusing.acquire(0.5, plain('door'), SETTINGS), RangeError);
  assert.throws(() => refusing.cancel(NaN), RangeError);
  refusing.acquire(1, plain('door'), SETTINGS);
  refusing.free();
});
