/** A server in memory under the fake timers of `node:test`. Those of Jest and Vitest are tested in real projects of theirs. */

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { LockManager } from '../index.js';
import { MemoryServer } from './index.js';

const HOUR = 3_600_000;

test('a_lease_ages_with_fake_timers_and_nothing_else_needs_them', async () => {
  mock.timers.enable();
  try {
    const server = new MemoryServer();
    const [locks, other] = [new LockManager(server), new LockManager(server)];
    const lease = await locks.mutex('report').acquire();
    const heard: string[] = [];
    locks.on('lost', ({ reason }) => heard.push(reason));
    const waiter = other.mutex('report').acquire();
    while ((await locks.inspect('report')).waiters.length === 0);
    mock.timers.tick(30_000);
    assert.equal(await lease.lost, 'expired');
    assert.deepEqual(heard, ['expired']);
    assert.ok((await waiter).fence > lease.fence);
  } finally {
    mock.timers.reset();
  }
});

test('a_lease_is_renewed_when_promises_run_between_the_ticks', async () => {
  mock.timers.enable();
  try {
    const lease = await new LockManager(new MemoryServer()).mutex('report').acquire();
    for (let second = 0; second < 120; second++) {
      mock.timers.tick(1_000);
      await lease.verify();
    }
    assert.ok(lease.isHeld);
  } finally {
    mock.timers.reset();
  }
});

test('callers_of_one_manager_take_turns_while_the_fake_clock_stands_still', async () => {
  mock.timers.enable();
  try {
    const lock = new LockManager(new MemoryServer()).mutex('report');
    let turns = 0;
    const took = async (): Promise<void> => {
      while (turns < 3_000) await lock.run(() => void (turns += 1));
    };
    await Promise.all([took(), took(), took()]);
    assert.ok(turns >= 3_000);
  } finally {
    mock.timers.reset();
  }
});

test('fake_clocks_that_come_and_go_pass_no_time', () => {
  const { clock } = new MemoryServer();
  for (let round = 0; round < 5; round++) {
    const before = clock.elapsed;
    mock.timers.enable();
    const faked = clock.elapsed;
    mock.timers.tick(1_000);
    const ticked = clock.elapsed;
    mock.timers.reset();
    assert.ok(faked - before < HOUR);
    // In whole microseconds.
    assert.ok(Math.round((ticked - faked) * 1_000) >= 1_000_000);
    assert.ok(clock.elapsed - ticked < HOUR, 'the wall clock went from 1970 to today');
  }
});

test('a_wall_clock_that_is_set_back_changes_nothing', () => {
  mock.timers.enable({ apis: ['Date'], now: 1_000_000 });
  try {
    const { clock } = new MemoryServer();
    const before = clock.elapsed;
    mock.timers.setTime(1);
    assert.ok(clock.elapsed >= before);
    assert.ok(clock.elapsed < before + 30_000);
    mock.timers.setTime(60_001);
    assert.ok(clock.elapsed >= before + 59_990);
  } finally {
    mock.timers.reset();
  }
});

test('clocks_that_both_go_back_stand_still', (t) => {
  let now = 5_000;
  t.mock.method(performance, 'now', () => now);
  t.mock.method(Date, 'now', () => now);
  const { clock } = new MemoryServer();
  now = 6_000;
  assert.equal(clock.elapsed, 1_000);
  now = 1;
  assert.equal(clock.elapsed, 1_000);
});

test('many_small_steps_of_a_fake_clock_count', () => {
  mock.timers.enable();
  try {
    const { clock } = new MemoryServer();
    for (let step = 0; step < 1_000; step++) {
      mock.timers.tick(1);
      clock.elapsed;
    }
    assert.ok(clock.elapsed >= 995, `${clock.elapsed}`);
  } finally {
    mock.timers.reset();
  }
});

test('a_server_that_ignores_the_date_loses_no_lease_when_it_is_set', async () => {
  mock.timers.enable({ apis: ['Date'], now: 1_000_000 });
  try {
    const server = new MemoryServer({ followDate: false });
    const lease = await new LockManager(server).mutex('report').acquire();
    const before = server.clock.elapsed;
    mock.timers.setTime(90_000_000);
    assert.ok(lease.isHeld && lease.remaining > 20_000);
    assert.ok(server.clock.elapsed < before + HOUR);
    server.clock.advance('30s');
    assert.equal(await lease.lost, 'expired');
  } finally {
    mock.timers.reset();
  }
});

test('an_option_about_the_date_that_can_not_be_used_is_refused', () => {
  for (const options of [{ followDate: 1 }, { followDate: 'no' }, { followDate: false, clock: new MemoryServer().clock }]) {
    assert.throws(() => new MemoryServer(options as never), { code: 'invalid-option', field: 'followDate' });
  }
});
