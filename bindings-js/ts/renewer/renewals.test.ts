/** The worker's leases, on virtual time and with a server that is a function. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { CallResult } from '../connections/index.js';
import { turns } from '../testing/virtual-time.js';
import { Board } from './board.js';
import type { Entry, FromWorker } from './messages.js';
import { Renewals } from './renewals.js';

/** The TTL of the leases. */
const TTL = 1_000;
/** How far the main thread's clock is ahead of the worker's. */
const AHEAD = 5_000;

const RENEWED = { reply: ['renewed', 0, 0, 1, TTL, -1, 0] };
const GONE = { reply: ['gone', 0, 0, 1, 0, -1, 0] };

/** A worker, and the main thread that it works for. */
class World {
  /** The worker's clock. */
  now = 0;
  readonly board = new Board();
  readonly sent: { at: number; words: readonly string[] }[] = [];
  readonly told: FromWorker[] = [];
  /** What the server answers. */
  answer: (words: readonly string[]) => CallResult | Promise<CallResult> = (words) => ({ reply: ['renewed', 0, 0, 1, Number(words.at(-1)), -1, 0] });
  #wake: { at: number; run: () => void } | undefined;
  readonly renewals = new Renewals(
    async (words) => {
      this.sent.push({ at: this.now, words });
      return this.answer(words);
    },
    (message) => this.told.push(message),
    { now: () => this.now, wakeIn: (ms, run) => (this.#wake = { at: this.now + ms, run }) },
  );

  constructor() {
    this.renewals.handle({ kind: 'board', share: 1, buffer: this.board.buffer, now: AHEAD });
    this.hear();
  }

  /** The main thread hears from the server. */
  hear(): void {
    this.board.hear(this.now + AHEAD);
  }

  /** The first entry of a manager is renewed at once, so the tests begin with the second. */
  async hold(entry: Partial<Entry> = {}): Promise<void> {
    const whole = { share: 1, id: 2, slot: 0, words: ['EVALSHA', 'abc', '1', 'job', 'token'], ttl: TTL, left: TTL, ends: Infinity, ...entry };
    this.renewals.handle({ kind: 'hold', entry: whole, now: this.now + AHEAD });
    await turns();
  }

  async pass(ms: number): Promise<void> {
    for (const end = this.now + ms; this.now < end;) {
      this.now = Math.min(end, this.#wake?.at ?? end);
      const wake = this.#wake;
      if (wake !== undefined && wake.at <= this.now) {
        this.#wake = undefined;
        wake.run();
      }
      await turns();
    }
  }

  /** Until when the main thread knows that it has the lease of a slot, by the worker's clock. */
  until(slot = 0): number | undefined {
    const confirmed = this.board.read(slot);
    return confirmed && confirmed.left > 0 ? confirmed.sent - AHEAD + confirmed.left : undefined;
  }
}

test('while_the_main_thread_hears_from_the_server_the_worker_sends_nothing', async () => {
  const world = new World();
  await world.hold();
  for (let count = 0; count < 50; count++) {
    // It renews at a third of the TTL, and the answer takes a moment.
    await world.pass(340);
    world.hear();
  }
  assert.deepEqual(world.sent, []);
});

test('a_silent_main_thread_never_loses_a_lease_and_each_confirmed_time_is_that_of_the_server', async () => {
  const world = new World();
  await world.hold();
  let until = TTL;
  for (let count = 0; count < 500; count++) {
    await world.pass(10);
    const last = world.sent.at(-1);
    if (last !== undefined) until = last.at + TTL;
    assert.ok(until - world.now > TTL / 3, `${until - world.now} ms are left`);
    assert.equal(world.until() ?? TTL, until);
  }
  assert.ok(world.sent.length >= 10 && world.sent.length <= 16, `${world.sent.length} renewals`);
});

test('a_main_thread_that_renewed_just_before_the_silence_has_time_left_when_the_worker_begins', async () => {
  const world = new World();
  await world.hold();
  // The last renewal is a third of a TTL older than the last reply, which may have been for another lock.
  await world.pass(333);
  world.hear();
  await world.pass(360);
  const [first] = world.sent;
  assert.ok(first !== undefined && first.at <= 700, `the first renewal at ${first?.at}`);
});

test('the_worker_stops_when_max_hold_is_over_and_sets_no_longer_ttl', async () => {
  const world = new World();
  await world.hold({ ends: AHEAD + 2_500 });
  await world.pass(10_000);
  const last = world.sent.at(-1);
  assert.ok(last !== undefined && last.at < 2_500);
  const until = Math.max(...world.sent.map(({ at, words }) => at + Number(words.at(-1))));
  // Covered to its end, and by no more than drift and margin.
  assert.ok(until >= 2_500 && until <= 2_500 + 0.07 * TTL, `until ${until}`);
});

test('no_attempt_is_made_after_max_hold_even_if_all_before_it_have_failed', async () => {
  const world = new World();
  world.answer = () => ({ failure: { kind: 'interrupted', text: 'reset' } });
  await world.hold({ ends: AHEAD + 800 });
  await world.pass(10_000);
  assert.ok(world.sent.length > 1 && world.sent.every(({ at }) => at < 800));
});

test('a_lease_that_a_waiter_got_for_a_short_time_is_renewed_in_that_time', async () => {
  const world = new World();
  await world.hold({ left: 200 });
  await world.pass(100);
  assert.equal(world.sent.length, 1);
});

test('the_first_lease_of_a_manager_is_renewed_at_once', async () => {
  const world = new World();
  await world.hold({ id: 1 });
  await world.pass(1);
  assert.equal(world.sent.length, 1);
  world.hear();
  await world.pass(300);
  assert.equal(world.sent.length, 1);
});

test('a_renewal_that_fails_is_tried_again_before_the_lease_ends_and_told_once', async () => {
  const world = new World();
  world.answer = () => ({ failure: { kind: 'interrupted', text: 'reset' } });
  await world.hold();
  await world.pass(900);
  assert.ok(world.sent.length >= 4, `${world.sent.length} attempts`);
  assert.deepEqual(world.told, [{ kind: 'failing', problem: 'reset' }]);
  assert.equal(world.until(), undefined);
  world.answer = () => RENEWED;
  await world.pass(200);
  assert.deepEqual(world.told.map(({ kind }) => kind), ['failing', 'answered']);
});

test('an_answer_that_never_comes_stops_no_later_attempt_and_one_that_comes_late_counts_from_when_it_was_sent', async () => {
  const world = new World();
  let answer: (result: CallResult) => void = () => {};
  world.answer = () => new Promise((resolve) => (answer = resolve));
  await world.hold();
  await world.pass(400);
  assert.equal(world.sent.length, 1);
  const late = answer;
  world.answer = () => new Promise(() => {});
  await world.pass(400);
  assert.equal(world.sent.length, 2);
  late(RENEWED);
  await turns();
  assert.equal(world.until(), (world.sent[0]?.at ?? 0) + TTL);
});

test('the_text_of_the_script_is_sent_to_a_server_that_does_not_have_it', async () => {
  const world = new World();
  world.answer = ([name]) => (name === 'EVAL' ? RENEWED : { failure: { kind: 'refused', text: 'NOSCRIPT No matching script.' } });
  world.renewals.handle({ kind: 'script', digest: 'abc', text: 'return 1', now: AHEAD });
  await world.hold();
  await world.pass(400);
  assert.deepEqual(world.sent.map(({ words }) => words.slice(0, 2)), [['EVALSHA', 'abc'], ['EVAL', 'return 1']]);
  assert.ok(world.until() !== undefined);
});

test('a_lease_that_the_server_does_not_have_is_told_and_asked_for_no_more', async () => {
  const world = new World();
  world.answer = () => GONE;
  await world.hold();
  await world.pass(5_000);
  assert.equal(world.sent.length, 1);
  assert.deepEqual(world.told, [{ kind: 'gone', share: 1, id: 2 }]);
  assert.equal(world.until(), undefined);
});

test('a_lease_that_was_dropped_is_renewed_no_more_and_an_answer_that_is_under_way_writes_nothing', async () => {
  const world = new World();
  let answer: (result: CallResult) => void = () => {};
  world.answer = () => new Promise((resolve) => (answer = resolve));
  await world.hold();
  await world.pass(400);
  world.renewals.handle({ kind: 'drop', share: 1, id: 2, now: world.now + AHEAD });
  answer(RENEWED);
  await world.pass(5_000);
  assert.equal(world.sent.length, 1);
  assert.equal(world.until(), undefined);
});

test('a_manager_that_has_closed_takes_its_leases_with_it_and_no_others', async () => {
  const world = new World();
  await world.hold();
  const other = new Board();
  other.hear(AHEAD);
  world.renewals.handle({ kind: 'board', share: 2, buffer: other.buffer, now: AHEAD });
  await world.hold({ share: 2, words: ['EVALSHA', 'abc', '1', 'other', 'token'] });
  world.renewals.handle({ kind: 'end', share: 1, now: AHEAD });
  await world.pass(1_000);
  assert.deepEqual([...new Set(world.sent.map(({ words }) => words[3]))], ['other']);
});

test('replies_that_are_no_answers_of_a_renewal_confirm_nothing', async () => {
  const odd = ['OK', null, [], ['renewed'], ['renewed', 0, 0, 1, -5], ['renewed', 0, 0, 1, 1e15], ['renewed', 0, 0, 1, 'x'], ['entered', 1, 1, 1, 500]];
  for (const reply of odd) {
    const world = new World();
    world.answer = () => ({ reply });
    await world.hold();
    await world.pass(500);
    assert.ok(world.sent.length > 0);
    assert.equal(world.until(), undefined, JSON.stringify(reply));
  }
});

test('a_message_that_was_read_late_makes_no_time_too_late', async () => {
  const world = new World();
  // This one was on its way for 300 ms, so its time is that much too early.
  world.now = 1_000;
  world.renewals.handle({ kind: 'script', digest: 'x', text: '', now: world.now + AHEAD - 300 });
  await world.hold();
  await world.pass(400);
  assert.equal(world.until(), (world.sent[0]?.at ?? 0) + TTL);
});
