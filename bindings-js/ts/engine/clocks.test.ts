/** The engine's clock is made of the host's two clocks. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { MANAGER_DEFAULTS } from '../support/options.generated.js';
import { fineClock, HOST } from '../support/timers.js';
import { until } from '../testing/expect.js';
import { type HostClocks, hostClocks, Moments } from './clocks.js';
import { Engine } from './engine.js';
import type { Outputs } from './output-reader.js';
import { PLAIN } from './types.js';

/** An engine that holds a lease of 30 s, and clocks that stand still until a test moves them. */
function holding(hosts?: HostClocks): { engine: Engine; remaining: () => number; pass: (ms: number) => void; set: (ms: number) => void } {
  let [monotonic, wall, id, lease] = [1_000, 1.7e12, 0, 0];
  const outputs: Outputs = {
    send: (number) => (id = number),
    sendDedicated: () => {},
    closeDedicated: () => {},
    subscribe: () => {},
    unsubscribe: () => {},
    completed: (_, outcome) => outcome.kind === 'acquired' && (lease = outcome.grant.lease),
    lost: () => {},
  leader: () => {},
  };
  const config = { ...MANAGER_DEFAULTS, batches: false, ahead: false };
  const engine = new Engine(new Uint8Array(16), config, outputs, undefined, hosts ?? { monotonic: () => monotonic, wall: () => Math.floor(wall) });
  engine.acquire(1, { name: 'door', mode: 'exclusive', kind: PLAIN }, { ttl: 30_000, renew: true, maxHold: undefined, wait: undefined });
  engine.reply(id, ['entered', 1_700_000_000_000_000, 1, 1_700_000_000_000_000, 30_000, 0, 0]);
  return {
    engine,
    remaining: () => engine.remaining(lease) / 1_000,
    pass: (ms) => ((monotonic += ms), (wall += ms)),
    set: (ms) => (wall += ms),
  };
}

test('time_is_exact_to_the_microsecond', () => {
  const { engine, remaining, pass } = holding();
  const before = remaining();
  pass(1.5);
  assert.equal(remaining(), before - 1.5);
  engine.passed();
  assert.equal(engine.now, 1_001_500);
  assert.ok(engine.wake > engine.now && engine.wake < Infinity);
  engine.free();
});

test('a_lease_ends_while_the_machine_is_suspended', () => {
  const { engine, remaining, pass, set } = holding();
  const before = remaining();
  // Only the wall clock goes on.
  set(20_000);
  assert.equal(remaining(), before - 20_000);
  set(-3_600_000);
  pass(1);
  assert.equal(remaining(), before - 20_001);
  set(60_000);
  assert.ok(remaining() < 0);
  engine.passed();
  assert.equal(remaining(), -Infinity);
  engine.free();
});

test('a_wall_clock_before_1970_breaks_nothing', () => {
  const { engine, remaining, pass, set } = holding();
  const before = remaining();
  set(-2e12);
  engine.passed();
  pass(10);
  assert.equal(remaining(), before - 10);
  engine.free();
});

interface TestHost {
  remaining(): number;
  pass(ms: number): void;
  suspend(ms: number): void;
  set(ms: number): void;
  /** What happens while the slow clock is read the next time, before and after its own look. */
  interrupt(before: () => void, after?: () => void): void;
}

/** A host whose clocks stand still until a test moves them, and an engine that uses them. */
function onHost(t: TestContext, { hasUptime = true } = {}): TestHost {
  let interruptions: (() => void)[] = [];
  const clocks = { now: 5_000, wall: 1.7e12, uptime: 90_000 };
  t.mock.method(HOST, 'now', () => clocks.now);
  t.mock.method(HOST, 'wall', () => Math.floor(clocks.wall));
  t.mock.method(HOST, 'uptime', () => {
    const [before, after] = interruptions;
    interruptions = [];
    before?.();
    const uptime = hasUptime ? Math.floor(clocks.uptime / 10) * 10 : undefined;
    after?.();
    return uptime;
  });
  const { engine, remaining } = holding(hostClocks());
  t.after(() => engine.free());
  const suspend = (ms: number): void => ((clocks.wall += ms), (clocks.uptime += ms)) as never;
  const pass = (ms: number): void => ((clocks.now += ms), suspend(ms));
  return { remaining, suspend, pass, set: (ms) => (clocks.wall += ms), interrupt: (...moments) => (interruptions = moments as (() => void)[]) };
}

test('a_wall_clock_that_is_set_changes_no_lease', (t) => {
  const { remaining, pass, set } = onHost(t);
  const before = remaining();
  for (const step of [60_000, -3_600_000, 86_400_000]) {
    set(step);
    assert.equal(remaining(), before);
  }
  pass(1_500);
  assert.equal(remaining(), before - 1_500);
});

test('a_suspension_counts_also_when_the_wall_clock_was_set_back_meanwhile', (t) => {
  const { remaining, pass, suspend, set } = onHost(t);
  const before = remaining();
  suspend(10_000);
  assert.ok(Math.abs(remaining() - (before - 10_000)) <= 10, `${remaining()}`);
  suspend(10_000);
  set(-10_000);
  pass(1_000);
  assert.ok(Math.abs(remaining() - (before - 21_000)) <= 20, `${remaining()}`);
});

test('a_suspension_counts_at_once_also_when_the_reading_of_the_clocks_is_interrupted', (t) => {
  for (const [before, after] of [[100, 0], [0, 100], [50, 50]] as const) {
    const { remaining, pass, suspend, interrupt } = onHost(t);
    const held = remaining();
    suspend(20_000);
    interrupt(() => pass(before), () => pass(after));
    const left = remaining();
    assert.ok(left <= held - 19_890 && left >= held - 20_000, `${held - left}`);
    // The interruption itself is no suspension.
    pass(1_000);
    assert.ok(Math.abs(remaining() - (held - 21_100)) <= 20, `${held - remaining()}`);
  }
});

test('a_suspension_between_the_readings_of_two_clocks_is_seen_by_the_next_reading', (t) => {
  for (const isBefore of [true, false]) {
    const { remaining, pass, suspend, interrupt } = onHost(t);
    const held = remaining();
    pass(1_000);
    const machine = (): void => suspend(20_000);
    interrupt(isBefore ? machine : () => {}, isBefore ? () => {} : machine);
    remaining();
    assert.ok(Math.abs(remaining() - (held - 21_000)) <= 20, `${held - remaining()}`);
  }
});

test('steps_of_ten_milliseconds_do_not_add_up', (t) => {
  const { remaining, pass } = onHost(t);
  const before = remaining();
  for (let step = 0; step < 2_000; step++) {
    pass(13.7);
    remaining();
  }
  assert.ok(Math.abs(remaining() - (before - 27_400)) < 1, `${remaining()}`);
});

test('without_such_a_clock_a_step_of_the_wall_clock_counts_as_a_suspension', (t) => {
  const { remaining, set } = onHost(t, { hasUptime: false });
  const before = remaining();
  set(20_000);
  assert.ok(remaining() <= before - 20_000);
});

test('node_on_linux_has_such_a_clock', { skip: process.platform !== 'linux' }, async () => {
  // The first reading may be a whole second.
  await until(async () => HOST.uptime() !== undefined);
  const [before, uptime] = [HOST.uptime(), HOST.uptime()];
  assert.ok(before !== undefined && uptime !== undefined && before > 0 && uptime >= before);
});

test('a_slow_clock_that_counts_whole_seconds_is_none', () => {
  let readings = 0;
  const uptime = fineClock(() => 5 + Math.floor(readings++ / 10));
  for (let i = 0; i < 1_000; i++) assert.equal(uptime(), undefined);
  assert.ok(readings < 200, `it was read ${readings} times`);
});

test('a_slow_clock_whose_first_reading_happens_to_be_a_whole_second_is_used_from_the_next_one_on', () => {
  let seconds = 5;
  const uptime = fineClock(() => seconds);
  assert.equal(uptime(), undefined);
  seconds = 5.25;
  assert.equal(uptime(), 5_250);
  seconds = 6;
  assert.equal(uptime(), 6_000);
});

test('a_time_before_the_last_input_is_never_converted_to_a_later_one', () => {
  const moments = new Moments();
  moments.note(1_000, 1_000_000);
  moments.note(2_000, 2_000_001);
  assert.equal(moments.at(1_500), 1_500_000);
  // The machine was suspended for an hour, some time after 2 s.
  moments.note(3_000, 3_000_000 + 3_600_000_000);
  assert.equal(moments.at(2_999), 2_999_000);
  assert.equal(moments.at(3_000.5), 3_000_500 + 3_600_000_000);
  assert.equal(moments.at(999), undefined);
  for (let count = 1; count <= 20; count++) moments.note(3_000 + count, 1e10 * count);
  assert.equal(moments.at(2_000), undefined);
});
