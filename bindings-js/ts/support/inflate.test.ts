import assert from 'node:assert/strict';
import { test } from 'node:test';
import { constants, deflateRawSync } from 'node:zlib';

import { unpack } from './bytes.js';
import { inflate } from './inflate.js';

/** Bytes with repetitions near and far, and parts without any. */
function sample(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = seed;
  const next = (below: number): number => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) % below;
  for (let at = 0; at < length;) {
    const [count, back] = [1 + next(400), 1 + next(40_000)];
    const isNew = at < back || next(3) === 0;
    for (let i = 0; i < count && at < length; i++, at++) bytes[at] = isNew ? next(256) : (bytes[at - back] as number);
  }
  return bytes;
}

test('a_stream_of_every_kind_of_block_is_read_as_zlib_reads_it', () => {
  for (const length of [0, 1, 300, 70_000, 300_000]) {
    const bytes = sample(length, length + 1);
    for (const options of [{ level: 0 }, { strategy: constants.Z_FIXED }, { level: 1 }, { level: 9 }, { strategy: constants.Z_HUFFMAN_ONLY }]) {
      assert.deepEqual(inflate(deflateRawSync(bytes, options), length), bytes, `${length} bytes, ${JSON.stringify(options)}`);
    }
  }
});

test('packed_text_is_unpacked_the_same_on_hosts_without_node', (t) => {
  const bytes = sample(50_000, 7);
  const packed = { base64: deflateRawSync(bytes).toString('base64'), length: bytes.length };
  assert.deepEqual(new Uint8Array(unpack(packed)), bytes);
  const { Buffer } = globalThis;
  t.after(() => Object.assign(globalThis, { Buffer }));
  t.mock.method(process, 'getBuiltinModule', () => undefined);
  Object.assign(globalThis, { Buffer: undefined });
  assert.deepEqual(unpack(packed), bytes);
});
