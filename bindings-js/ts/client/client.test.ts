/** Tests the client with a fake link. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type Lease, openLease } from '../api/lease.js';
import { readManagerOptions } from '../api/options.js';
import type { CallResult, Link } from '../connections/index.js';
import { type LockSpec, PLAIN } from '../engine/index.js';
import { type Closed, isLeaseholdError, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { turns, VirtualTime } from '../testing/virtual-time.js';
import { Client } from './client.js';

const { config, settings: waiting } = readManagerOptions({});
const settings = { ...waiting, wait: undefined };
let fence = 1e15;

const lock = (name: string): LockSpec => ({ name, mode: 'exclusive', kind: PLAIN });

/** The fast path of an acquire is the only command with three keys. */
const acquires = (args: readonly string[]): boolean => args[2] === '3';

/** Grants every acquire, and answers other commands as the test says. */
class Granting implements Link {
  readonly library = 'custom';
  closed = 0;
  grants = true;
  others: () => Promise<CallResult> = async () => ({ reply: 1 });

  async call(args: readonly string[]): Promise<CallResult> {
    return this.grants && acquires(args) ? { reply: String(++fence) } : this.others();
  }

  async close(): Promise<void> {
    this.closed++;
  }
}

test('a_fault_inside_ends_everything_with_typed_errors_and_counts_no_lease_as_held', async (t) => {
  new VirtualTime(t);
  const link = new Granting();
  const client = new Client(config, { connect: () => [link] }, () => '');
  const lease = await client.acquire(lock('a'), settings, undefined, openLease);
  link.grants = false;
  link.others = async () => ({ failure: { kind: 'no such kind' as never, text: '' } });
  const second = caught(client.acquire(lock('a'), waiting, undefined, openLease));
  const { signal } = lease;
  const extending = caught(lease.extend('1s'));
  for (const error of [await second, await extending]) assert.ok(isLeaseholdError(error, 'closed') && error.cause instanceof RangeError, String(error));
  assert.equal(await lease.lost, 'expired');
  assert.ok(!lease.isHeld && signal.aborted);
  assert.equal(await lease.release(), 'already-expired');
  assert.ok(isLeaseholdError(await caught(client.acquire(lock('b'), settings, undefined, openLease)), 'closed'));
  await client.close();
  assert.equal(link.closed, 2);
});

test('a_listener_that_closes_the_manager_once_more_gets_the_result_of_the_first_close', async () => {
  const server = new MemoryServer();
  const locks = new LockManager(server);
  const again: Promise<Closed>[] = [];
  for (const name of ['a', 'b']) (await locks.mutex(name).acquire()).signal.addEventListener('abort', () => again.push(locks.close()));
  assert.deepEqual(await locks.close(), { lost: 2, unreleased: 0 });
  assert.deepEqual(await Promise.all(again), [{ lost: 2, unreleased: 0 }, { lost: 2, unreleased: 0 }]);
  for (const name of ['a', 'b']) assert.equal(server.expire(name), false, 'it is still held');
});

test('a_release_from_a_listener_of_a_close_waits_for_the_servers_answer', async (t) => {
  const time = new VirtualTime(t);
  for (const count of [20, 1]) {
    const link = new Granting();
    const client = new Client(config, { connect: () => [link] }, () => '');
    const happened: string[] = [];
    const leases: Lease[] = [];
    while (leases.length < count) leases.push(await client.acquire(lock(`lock ${leases.length}`), settings, undefined, openLease));
    // The event loop turns in between if they are many.
    for (const { signal } of leases) signal.addEventListener('abort', () => time.takes(5));
    const [first] = leases as [Lease];
    first.signal.addEventListener('abort', () => first.release().then((outcome) => happened.push(outcome), (error) => happened.push(String(error))));
    const asked = new Promise<() => void>((resolve) => (link.others = () => new Promise((answer) => resolve(() => answer({ reply: 1 })))));
    const closing = client.close();
    const answer = await asked;
    await turns();
    happened.push('the server answers');
    link.others = async () => ({ reply: 1 });
    answer();
    await time.result(closing);
    assert.deepEqual(happened, ['the server answers', 'released'], `of ${count}`);
  }
});

test('answers_that_come_late_twice_or_after_the_end_are_ignored', async (t) => {
  const time = new VirtualTime(t);
  const link = new Granting();
  const answers: ((result: CallResult) => void)[] = [];
  const client = new Client(config, { connect: () => [link] }, () => '');
  const lease = await client.acquire(lock('a'), settings, undefined, openLease);
  link.others = () => new Promise((resolve) => answers.push(resolve));
  const verified = caught(lease.verify());
  assert.equal(await time.until(verified), config.responseTimeout);
  assert.ok(isLeaseholdError(await verified, 'unreachable'));
  const closing = client.close();
  await turns();
  for (const answer of answers) answer({ reply: ['renewed', 0, 0, fence, 30_000, 0, 0] });
  await closing;
  for (const answer of answers) answer({ reply: null });
  await turns();
  assert.ok(!lease.isHeld);
});

test('a_link_that_breaks_its_word_breaks_nothing', async (t) => {
  const time = new VirtualTime(t);
  const link = new Granting();
  const client = new Client(config, { connect: () => [link] }, () => '');
  const lease = await client.acquire(lock('a'), settings, undefined, openLease);
  link.others = () => Promise.reject(new Error('it said that it never would'));
  const extended = caught(lease.extend('1s'));
  await time.until(extended);
  const error = await extended;
  assert.ok(isLeaseholdError(error, 'unreachable') && /never would/.test(error.message), String(error));
  await time.until(client.close());
});

test('a_connection_without_messages_tries_before_it_queues', async (t) => {
  const time = new VirtualTime(t);
  const ways: string[] = [];
  const seen = new AbortController();
  const locks = new LockManager({
    call: async (args: string[]) => {
      ways.push(...args.slice(3).filter((word) => word === 'try' || word === 'wait'));
      if (ways.length === 2) setImmediate(() => seen.abort());
      return acquires(args) ? 0 : ['busy', 0, 0, 1e15, 20, 0, 0];
    },
  });
  await time.until(caught(locks.mutex('a').acquire({ wait: '10s', signal: seen.signal })));
  assert.deepEqual(ways.slice(0, 2), ['try', 'wait']);
  await time.until(locks.close());
});
