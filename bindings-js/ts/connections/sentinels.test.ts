import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isNewer, type PrimaryReport } from './sentinels.js';

function said(epoch: number, at: number): PrimaryReport {
  return { host: '127.0.0.1', port: 6379, epoch, at };
}

test('the_sentinel_of_the_latest_failover_is_believed', () => {
  assert.equal(isNewer(undefined, said(0, 0)), true, 'the first answer always counts');
  assert.equal(isNewer(said(4, 0), said(5, 1)), true);
  assert.equal(isNewer(said(5, 0), said(5, 1)), true, 'in one epoch the later answer counts');
  assert.equal(isNewer(said(5, 0), said(4, 1)), false, 'one that was cut off still names the old primary');
});

test('sentinels_that_were_all_set_up_anew_are_believed_after_a_while', () => {
  assert.equal(isNewer(said(5, 0), said(0, 30_000)), false);
  assert.equal(isNewer(said(5, 0), said(0, 30_001)), true);
});
