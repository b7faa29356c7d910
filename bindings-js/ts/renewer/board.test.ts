import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Board, SLOTS } from './board.js';

const DAY = 86_400_000;

test('what_the_worker_writes_is_read_exactly', () => {
  const board = new Board();
  const same = new Board(board.buffer);
  for (const [slot, sent, left] of [[0, 0, 1], [1, 1_234.567, 30_000], [SLOTS - 1, 400 * DAY + 0.001, 31 * DAY]] as const) {
    board.confirm(slot, { id: 2 ** 31 - 1, sent, left });
    assert.deepEqual(same.read(slot), { id: 2 ** 31 - 1, sent, left });
  }
  assert.equal(same.changes, 3);
});

test('a_slot_that_is_half_written_is_not_read', () => {
  const board = new Board();
  board.confirm(0, { id: 1, sent: 1, left: 1 });
  // The worker has died in between.
  Atomics.add(new Int32Array(board.buffer), 2, 1);
  assert.equal(board.read(0), undefined);
});

test('the_silence_is_right_for_weeks_and_a_clock_that_is_a_bit_behind_hears_no_long_silence', () => {
  const board = new Board();
  for (const now of [0, 10.5, 24 * DAY, 25 * DAY, 1_000 * DAY]) {
    board.hear(now);
    assert.equal(board.silence(now + 1_500), 1_500);
    assert.equal(board.silence(now - 1), 0);
  }
});
