import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Clock } from './clock.js';

/** Clocks that stand still until a test moves them. */
function clocks(): { monotonic: () => number; wall: () => number; pass: (ms: number) => void; sleep: (ms: number) => void; set: (ms: number) => void } {
  let [monotonic, wall] = [1_000, 1.7e12];
  return {
    monotonic: () => monotonic,
    wall: () => Math.floor(wall),
    pass: (ms) => ((monotonic += ms), (wall += ms)),
    sleep: (ms) => (wall += ms),
    set: (ms) => (wall += ms),
  };
}

/** Lets time pass in small steps, because a busy process reads its clock often. */
function busy(host: ReturnType<typeof clocks>, clock: Clock, ms: number): void {
  for (let passed = 0; passed < ms; passed += 0.25) {
    host.pass(0.25);
    clock.now();
  }
}

test('it_counts_microseconds_and_is_as_exact_as_the_monotonic_clock', () => {
  const host = clocks();
  const clock = new Clock(host);
  assert.equal(clock.now(), 0);
  host.pass(1.5);
  assert.equal(clock.now(), 1_500);
  busy(host, clock, 60_000);
  assert.ok(Math.abs(clock.now() - 60_001_500) <= 1_000, `${clock.now()}`);
});

test('it_goes_on_while_the_machine_sleeps', () => {
  const host = clocks();
  const clock = new Clock(host);
  for (let night = 0; night < 10; night++) {
    busy(host, clock, 2_000);
    const before = clock.now();
    host.sleep(3_600_000);
    assert.ok(Math.abs(clock.now() - before - 3_600_000_000) <= 2_000, `${clock.now() - before}`);
  }
});

test('a_wall_clock_that_is_set_back_changes_nothing_and_is_believed_again', () => {
  const host = clocks();
  const clock = new Clock(host);
  busy(host, clock, 1_000);
  host.set(-86_400_000);
  const before = clock.now();
  busy(host, clock, 2_000);
  assert.ok(Math.abs(clock.now() - before - 2_000_000) <= 2_000);
  host.sleep(60_000);
  assert.ok(clock.now() - before >= 62_000_000 - 3_000);
});

test('it_never_goes_back', () => {
  const host = clocks();
  const clock = new Clock(host);
  let last = 0;
  for (const step of [500, -400, 0, 10_000, -20_000, 1]) {
    host.set(step);
    host.pass(0.1);
    assert.ok(clock.now() >= last);
    last = clock.now();
  }
});

test('the_hosts_clocks_are_used_by_default', async () => {
  const clock = new Clock();
  const before = clock.now();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const passed = clock.now() - before;
  assert.ok(passed >= 19_000 && passed < 5_000_000, `${passed}`);
});
