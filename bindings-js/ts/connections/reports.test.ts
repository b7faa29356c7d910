import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Reports } from './reports.js';

/** Three sentinels. Each report is by the sentinel at a place: the primary's port, the epoch and the time. */
function world(): (place: number, port: number, epoch: number, at?: number) => boolean {
  const [reports, sentinels] = [new Reports(), [{}, {}, {}]];
  return (place, port, epoch, at = 0) => reports.take(sentinels[place] as object, { host: '127.0.0.1', port, epoch, at });
}

test('the_sentinel_of_the_latest_failover_is_believed', () => {
  const says = world();
  assert.ok(says(0, 1, 4), 'the first answer always counts');
  assert.ok(says(1, 2, 5));
  assert.ok(!says(0, 1, 4), 'one that was cut off still names the old primary');
  assert.ok(!says(1, 2, 5), 'it is the primary already');
});

test('in_one_epoch_the_server_that_most_sentinels_name_counts_whoever_answers_last', () => {
  for (const stale of [0, 1, 2]) {
    const says = world();
    const [one, other] = [0, 1, 2].filter((place) => place !== stale) as [number, number];
    says(stale, 1, 0);
    assert.ok(!says(one, 2, 0), 'one against one');
    assert.ok(says(other, 2, 0), 'two against one');
    for (let round = 1; round < 20; round++) {
      for (const [place, port] of [[one, 2], [other, 2], [stale, 1]] as const) assert.ok(!says(place, port, 0, round * 5_000));
    }
  }
});

test('in_one_epoch_a_sentinel_can_change_its_mind', () => {
  const says = world();
  says(0, 1, 5);
  assert.ok(says(0, 2, 5));
});

test('in_one_epoch_sentinels_that_are_silent_no_longer_count', () => {
  const says = world();
  says(0, 1, 0);
  says(1, 1, 0);
  assert.ok(!says(2, 2, 0, 30_000), 'it is alone');
  assert.ok(says(2, 2, 0, 30_001));
});

test('sentinels_that_were_all_set_up_anew_are_believed_after_a_while', () => {
  const says = world();
  says(0, 1, 5);
  assert.ok(!says(0, 2, 0, 30_000));
  assert.ok(says(0, 2, 0, 30_001));
});
