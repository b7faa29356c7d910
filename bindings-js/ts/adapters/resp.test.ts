import assert from 'node:assert/strict';
import { test } from 'node:test';

import fc from 'fast-check';

import { runs } from '../testing/random.js';
import { encodeCommand, ErrorReply, RespReader, type RespValue } from './resp.js';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test('replies_are_the_same_however_the_bytes_are_cut', () => {
  const value: fc.Arbitrary<RespValue> = fc.letrec<{ value: RespValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.maxSafeInteger(),
      fc.constant(null),
      fc.stringMatching(/^[ -~]{0,20}$/),
      fc.uint8Array({ maxLength: 40 }),
      fc.stringMatching(/^[A-Z]{2,8} [ -~]{0,20}$/).map((text) => new ErrorReply(text)),
      fc.array(tie('value'), { maxLength: 4 }),
    ),
  })).value;
  fc.assert(
    fc.property(fc.array(value, { maxLength: 5 }), fc.array(fc.nat(200), { maxLength: 8 }), (values, cuts) => {
      const stream = Buffer.concat(values.map(encodeReply));
      const places = [0, ...cuts.filter((cut) => cut < stream.length).sort((a, b) => a - b), stream.length];
      const reader = new RespReader();
      const read = places.slice(1).flatMap((end, i) => reader.push(stream.subarray(places[i], end)));
      assert.deepEqual(read.map(plain), values.map(plain));
    }),
    runs(200),
  );
});

test('a_long_list_in_small_pieces_is_read_once', () => {
  // Counts the bytes that are read: a reader that begins again with each piece reads a thousand times as many.
  const list = bytes(`*${10_000}\r\n${'$5\r\nabcde\r\n'.repeat(10_000)}`);
  const decode = TextDecoder.prototype.decode;
  let lines = 0;
  TextDecoder.prototype.decode = function (...given) {
    lines += 1;
    return decode.apply(this, given);
  };
  try {
    const reader = new RespReader();
    const read = [];
    for (let at = 0; at < list.length; at += 64) read.push(...reader.push(list.subarray(at, at + 64)));
    assert.equal((read[0] as RespValue[]).length, 10_000);
  } finally {
    TextDecoder.prototype.decode = decode;
  }
  assert.ok(lines < 30_000, `${lines} lines`);
});

test('a_reply_is_limited_although_its_items_have_been_read', () => {
  const reader = new RespReader();
  reader.push(bytes(`*${1024 * 1024}\r\n`));
  const piece = bytes(':1000\r\n'.repeat(2048));
  assert.throws(() => {
    for (let i = 0; i < 512; i++) reader.push(piece);
  }, /longer than/);
});

test('a_command_counts_bytes_not_letters', () => {
  assert.equal(new TextDecoder().decode(encodeCommand(['SET', 'é', ''])), '*3\r\n$3\r\nSET\r\n$2\r\né\r\n$0\r\n\r\n');
});

test('what_is_no_reply_is_refused', () => {
  for (const text of ['HTTP/1.1 400 Bad Request\r\n', ':x\r\n', '$x\r\n', '*1e3\r\n', `$${5 * 1024 * 1024}\r\n`, `*${5 * 1024 * 1024}\r\n`, '*1\r\n'.repeat(9)]) {
    assert.throws(() => new RespReader().push(bytes(text)), Error, text);
  }
  assert.throws(() => new RespReader().push(new Uint8Array(5 * 1024 * 1024).fill(43)), /longer than/);
});

function encodeReply(value: RespValue): Uint8Array {
  if (value === null) return bytes('$-1\r\n');
  if (typeof value === 'number') return bytes(`:${value}\r\n`);
  if (typeof value === 'string') return bytes(`+${value}\r\n`);
  if (value instanceof ErrorReply) return bytes(`-${value.message}\r\n`);
  if (value instanceof Uint8Array) return Buffer.concat([bytes(`$${value.length}\r\n`), value, bytes('\r\n')]);
  return Buffer.concat([bytes(`*${value.length}\r\n`), ...value.map(encodeReply)]);
}

function plain(value: RespValue): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Uint8Array) return ['bytes', ...value];
  return value instanceof ErrorReply ? ['error', value.message] : value;
}
