/** A caller waits for the commands that were sent before, and for those to which their answers lead. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { InFlight } from './in-flight.js';

const LONG = 60_000;

test('nothing_in_flight_is_settled_at_once', async () => {
  await new InFlight().settled(LONG);
});

test('a_command_that_an_answer_led_to_is_awaited_too_and_a_later_one_is_not', async () => {
  const inFlight = new InFlight();
  const first = inFlight.sent();
  const settled = observed(inFlight.settled(LONG));
  inFlight.sent(); // later, and never answered
  let second = first;
  inFlight.answered(first, () => (second = inFlight.sent()));
  await turn();
  assert.ok(!settled.done);
  inFlight.answered(second, () => {});
  await turn();
  assert.ok(settled.done);
});

test('a_second_caller_waits_for_what_the_first_one_waits_for', async () => {
  const inFlight = new InFlight();
  const wave = inFlight.sent();
  const both = [observed(inFlight.settled(LONG)), observed(inFlight.settled(LONG))];
  await turn();
  assert.ok(both.every(({ done }) => !done));
  inFlight.answered(wave, () => {});
  await turn();
  assert.ok(both.every(({ done }) => done));
});

test('an_answer_that_never_comes_is_awaited_once', async () => {
  const inFlight = new InFlight();
  inFlight.sent();
  await inFlight.settled(1);
  await inFlight.settled(LONG);
});

test('a_command_counts_as_answered_even_if_its_answer_breaks_something', async () => {
  const inFlight = new InFlight();
  const wave = inFlight.sent();
  const settled = inFlight.settled(LONG);
  assert.throws(() => inFlight.answered(wave, () => assert.fail('broken')), /broken/);
  await settled;
});

function observed(promise: Promise<void>): { done: boolean } {
  const state = { done: false };
  void promise.then(() => (state.done = true));
  return state;
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
