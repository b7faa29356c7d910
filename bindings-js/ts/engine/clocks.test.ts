/** The engine's clock is made of the host's two clocks. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Engine } from './engine.js';
import { type Outputs, PLAIN } from './types.js';

/** An engine that holds a lease of 30 s, and clocks that stand still until a test moves them. */
function holding(): { engine: Engine; remaining: () => number; pass: (ms: number) => void; set: (ms: number) => void } {
  let [monotonic, wall, id, lease] = [1_000, 1.7e12, 0, 0];
  const outputs: Outputs = {
    send: (number) => (id = number),
    sendDedicated: () => {},
    closeDedicated: () => {},
    subscribe: () => {},
    unsubscribe: () => {},
    completed: (_, outcome) => outcome.kind === 'acquired' && (lease = outcome.grant.lease),
    lost: () => {},
  };
  const config = {
    prefix: '', localHandoffs: 32, claimWindow: 3_000, responseTimeout: 2_000, nodeTimeout: 100, mixedFleet: false, batches: false,
  };
  const engine = new Engine(new Uint8Array(16), config, outputs, undefined, { monotonic: () => monotonic, wall: () => Math.floor(wall) });
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
