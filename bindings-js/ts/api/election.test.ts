/** Tests elections, on a server in memory and on virtual time. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type Leader, LockManager, type Term } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { turns, VirtualTime } from '../testing/virtual-time.js';

/** Work that goes on until its term ends. */
function until(term: Term): Promise<void> {
  return new Promise((_, reject) => term.signal.addEventListener('abort', () => reject(term.signal.reason as Error)));
}

test('one_leads_the_next_follows_its_resignation_and_observers_learn_it', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [first, second, third] = [new LockManager(server), new LockManager(server), new LockManager(server)];
  const [a, b] = [first.election('chief', { value: 'a' }), second.election('chief', { value: 'b b' })];
  const terms: Term[] = [];
  const work = (term: Term): Promise<void> => {
    terms.push(term);
    return until(term);
  };
  const told: (Leader | null)[] = [];
  const watching = (async () => {
    for await (const leader of third.election('chief').observe()) {
      told.push(leader);
      if (leader?.value === 'b b') break;
    }
  })();
  await turns();
  const stopping = [new AbortController(), new AbortController()] as const;
  const leading = caught(a.lead(work, { signal: stopping[0].signal }));
  await time.pass(10);
  const following = caught(b.lead(work, { signal: stopping[1].signal }));
  await time.pass(100_000, 1_000);
  assert.deepEqual([a.isLeader, b.isLeader, terms.length], [true, false, 1]);
  stopping[0].abort(new Error('stop'));
  assert.equal(String(await leading), 'Error: stop');
  await time.result(watching);
  assert.deepEqual([a.isLeader, b.isLeader, terms.length], [false, true, 2]);
  assert.deepEqual(told.map((leader) => leader?.value ?? null), [null, 'a', 'b b']);
  assert.deepEqual(told.slice(1).map((leader) => leader?.fence), terms.map((term) => term.fence));
  stopping[1].abort(new Error('stop'));
  assert.equal(String(await following), 'Error: stop');
  assert.equal(await terms[0]?.resign(), 'released', 'it has resigned');
  await Promise.all([first.close(), second.close(), third.close()]);
});

test('in_an_outage_nobody_leads_once_the_ttl_is_over_and_the_campaign_goes_on', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const election = locks.election('chief', { ttl: '10s' });
  const fences: number[] = [];
  const leading = election.lead((term) => {
    fences.push(term.fence);
    return until(term);
  }).catch((error: unknown) => error);
  await time.pass(20_000, 100);
  server.stop();
  await time.pass(10_000, 100);
  assert.deepEqual([election.isLeader, fences.length], [false, 1]);
  await time.pass(300_000, 1_000);
  server.start();
  await time.pass(20_000, 100);
  assert.deepEqual([election.isLeader, fences.length], [true, 2]);
  assert.ok((fences[1] as number) > (fences[0] as number));
  await locks.close();
  assert.ok(isLeaseholdError(await leading, 'closed'));
});

test('work_that_does_not_stop_is_unhealthy_after_the_grace', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const election = locks.election('chief');
  const finish: (() => void)[] = [];
  const leading = election.lead(() => new Promise<void>((resolve) => finish.push(resolve))).catch(() => {});
  await time.pass(60_000, 1_000);
  assert.ok(election.isLeader && election.isHealthy(0));
  server.expire('chief');
  await time.pass(20_000, 100);
  assert.ok(election.isHealthy('30s') && !election.isHealthy('1s'));
  assert.ok(election.isLeader, 'it leads again');
  finish[0]?.();
  await turns();
  assert.ok(election.isHealthy(0));
  await locks.close();
  await time.result(leading);
});

test('an_error_of_the_work_ends_the_campaign_and_a_second_campaign_conflicts', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const election = locks.election('chief');
  const failed = caught(election.lead(async () => {
    const conflict = await caught(locks.election('chief').lead(() => {}));
    assert.ok(isLeaseholdError(conflict, 'conflict'), String(conflict));
    throw new Error('mine');
  }));
  await time.pass(1_000);
  assert.equal(String(await failed), 'Error: mine');
  assert.notEqual(await locks.mutex('chief').tryAcquire(), null, 'it has resigned');
  for (const options of [{ value: 7 }, { value: 'a\nb' }, { ttl: 'soon' }, { wait: '1s' }]) {
    const error = await caught((async () => locks.election('other', options as never).lead(() => {}))());
    assert.ok(isLeaseholdError(error, 'invalid-option'), `${JSON.stringify(options)}: ${String(error)}`);
  }
  await locks.close();
});

test('a_close_ends_observers', async (t) => {
  const [, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const observer = locks.election('chief').observe();
  assert.deepEqual(await observer.next(), { value: null, done: false });
  const next = caught(observer.next());
  await locks.close();
  assert.ok(isLeaseholdError(await next, 'closed'));
  assert.deepEqual(await observer.next(), { value: undefined, done: true });
});

test('a_return_or_a_signal_ends_an_observer_that_waits', async (t) => {
  const [, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const election = locks.election('chief');
  const observer = election.observe();
  assert.deepEqual(await observer.next(), { value: null, done: false });
  const waiting = [observer.next(), observer.next()];
  assert.deepEqual(await observer.return?.(), { value: undefined, done: true });
  assert.deepEqual(await Promise.all(waiting), [{ value: undefined, done: true }, { value: undefined, done: true }]);
  assert.deepEqual(await observer.next(), { value: undefined, done: true });
  assert.deepEqual(await election.observe().return?.(), { value: undefined, done: true }, 'one that has not begun');

  const stopping = new AbortController();
  const told: (Leader | null)[] = [];
  const watching = caught((async () => {
    for await (const leader of election.observe({ signal: stopping.signal })) told.push(leader);
  })());
  await turns();
  stopping.abort(new Error('stop'));
  assert.equal(String(await watching), 'Error: stop');
  assert.deepEqual(told, [null]);
  assert.equal(String(await caught(election.observe({ signal: stopping.signal }).next())), 'Error: stop');
  assert.throws(() => election.observe({ signal: 7 as never }), (error) => isLeaseholdError(error, 'invalid-option'));
  await locks.close();
});

test('a_leader_leads_since_it_was_elected_however_late_the_change_is_fetched', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [first, second] = [new LockManager(server), new LockManager(server)];
  const observer = second.election('chief').observe();
  assert.deepEqual(await observer.next(), { value: null, done: false });
  const elected = Date.now();
  const leading = caught(first.election('chief').lead(until));
  await time.pass(1_000);
  await time.pass(60_000, 1_000);
  const { value } = await observer.next();
  assert.ok(value != null && value.since.getTime() - elected <= 100, `${String(value?.since.getTime())} after ${elected}`);
  await Promise.all([first.close(), second.close()]);
  assert.ok(isLeaseholdError(await leading, 'closed'));
});

test('in_an_outage_observers_say_that_nobody_leads_once_the_ttl_and_a_claim_window_are_over', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [first, second] = [new LockManager(server), new LockManager(server)];
  const leading = caught(first.election('chief', { value: 'a', ttl: '10s' }).lead(until));
  await time.pass(1_000);
  const observer = second.election('chief').observe();
  assert.equal((await time.result(observer.next())).value?.value, 'a');
  await time.pass(20_000, 100);
  server.stop();
  const next = observer.next();
  const took = await time.until(next);
  assert.equal((await next).value, null);
  assert.ok(took <= 16_000, `${took} ms`);
  server.start();
  assert.equal((await time.result(observer.next())).value?.value, 'a', 'it leads again');
  await time.result(Promise.all([first.close(), second.close()]));
  assert.ok(isLeaseholdError(await time.result(leading), 'closed'));
});

test('work_that_passes_on_the_abort_of_its_signal_ends_with_the_reason_of_the_callers_signal', async (t) => {
  const [stopping, reason] = [new AbortController(), new Error('stop')];
  const locks = new LockManager(new MemoryServer());
  t.after(() => locks.close());
  const led = caught(locks.election('leader').lead(async ({ signal }) => {
    setImmediate(() => stopping.abort(reason));
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError'))));
  }, { signal: stopping.signal }));
  assert.equal(await led, reason);
  const failure = new Error('no jobs');
  const failed = locks.election('other').lead(() => Promise.reject(failure), { signal: new AbortController().signal });
  assert.equal(await caught(failed), failure);
});
