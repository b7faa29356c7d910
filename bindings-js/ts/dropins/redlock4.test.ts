/** The drop-in for node-redlock 4, alone and beside the real library. What it shares with that of 5 is tested there. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import Bluebird from 'bluebird';

import { isLeaseholdError, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught } from '../testing/expect.js';
import { FiveServers } from '../testing/five-servers.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS_DURATION as LONG, GENEROUS_QUORUM } from '../testing/generous.js';
import { HOST } from '../support/timers.js';
import { VirtualTime } from '../testing/virtual-time.js';
import { answers, type Client } from './managers.js';
import { Promises } from './promises.js';
import { Lock, LockError, type Options, Redlock } from './redlock4.js';

const Original = createRequire(import.meta.url)('redlock-4') as typeof Redlock;
const LIBRARIES = { original: Original, dropIn: Redlock };
const PAIRS = [['original', 'dropIn'], ['dropIn', 'original'], ['dropIn', 'dropIn']] as const;

const { responseTimeout, nodeTimeout } = GENEROUS_QUORUM;
Object.assign(answers, { responseTimeout, nodeTimeout });

const fleet = await Fleet.start();

function redlock(library: typeof Redlock = Redlock, options: Options = {}): Redlock {
  return new library([clientOf(fleet.client())], options);
}

/** ioredis 5 and 6 have different types for the same client. */
function clientOf(client: unknown): Client {
  return client as Client;
}

test('a_lock_is_taken_extended_and_given_back_with_promises', async () => {
  const [locks, name] = [redlock(), unique()];
  const before = Date.now();
  const lock = await locks.lock(name, LONG);
  assert.ok(lock instanceof Lock && lock instanceof Redlock.Lock);
  assert.ok(lock.expiration > before + 0.9 * LONG && lock.expiration <= Date.now() + LONG, `${lock.expiration - before}`);
  assert.deepEqual([lock.redlock, lock.resource, lock.attempts, lock.attemptsRemaining], [locks, [name], 1, 9]);
  const expiration = lock.expiration;
  assert.equal(await lock.extend(2 * LONG), lock);
  assert.ok(lock.expiration > expiration && (await fleet.redis.pttl(name)) > 1.5 * LONG);
  assert.equal(await lock.unlock(), undefined);
  assert.equal(lock.expiration, 0);
  assert.ok(!(await fleet.isThere(name)));
});

test('a_lock_is_taken_extended_and_given_back_with_callbacks', async () => {
  const [locks, name] = [redlock(), unique()];
  const called = await new Promise<unknown[]>((resolve, reject) => {
    locks.acquire([name, `${name}:2`], LONG, (error, lock) => {
      if (error) return reject(error);
      lock?.extend(2 * LONG, (error, extended) => {
        if (error) return reject(error);
        locks.release(lock, (...words) => resolve([extended === lock, ...words]));
      });
    });
  });
  assert.deepEqual(called, [true, null]);
  const error = await new Promise((resolve) => locks.lock(name, 1, resolve));
  assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'ttl');
});

test('promises_are_those_of_bluebird_and_its_using_gives_the_lock_back', async () => {
  const [locks, name] = [redlock(), unique()];
  const taken = locks.lock(name, LONG);
  assert.ok(taken instanceof Bluebird);
  const lock = await taken;
  assert.ok(lock.unlock() instanceof Bluebird);
  const [held, told] = [[] as boolean[], [] as unknown[]];
  await Bluebird.using(locks.disposer(name, LONG), async () => void held.push(await fleet.isThere(name)));
  held.push(await fleet.isThere(name));
  await Bluebird.using(locks.disposer(name, LONG, (error) => told.push(error)), () => fleet.redis.del(name));
  assert.deepEqual(held, [true, false]);
  assert.ok(told.length === 1 && told[0] instanceof LockError);
  await Bluebird.using(locks.disposer(name, LONG), () => fleet.redis.del(name));
  assert.equal(await locks.lock([], LONG).catch(LockError, () => 'a lock error').catch(() => 'another'), 'another');
});

test('a_promise_settles_in_the_same_turn_of_the_event_loop_and_its_error_is_not_an_operational_one', async () => {
  const promises = new Promises(Bluebird);
  let [turned, give] = [false, (_: string): void => {}];
  const seen = promises.answer(new Promise<string>((resolve) => (give = resolve))).then((value) => [value, turned]);
  setImmediate(() => (turned = true));
  give('done');
  assert.deepEqual(await seen, ['done', false]);
  const caughtBy = promises.answer(Promise.reject(new LockError())).error(() => 'error').catch(LockError, () => 'catch');
  assert.equal(await caughtBy, 'catch');
});

test('without_bluebird_promises_are_the_hosts_and_a_disposer_is_refused', async (t) => {
  const promises = new Promises(undefined);
  const work = Promise.resolve('done');
  assert.equal(promises.answer(work) as unknown, work);
  const told: unknown[][] = [];
  const tell = (...words: unknown[]): void => void told.push(words);
  const mine = new Error('mine');
  await promises.answer(work, tell);
  await promises.answer(Promise.resolve(), tell);
  await caught(promises.answer(Promise.reject(mine), tell));
  assert.deepEqual(told, [[null, 'done'], [null], [mine]]);
  assert.throws(() => promises.disposer(async () => {}, async () => {}), (error) => isLeaseholdError(error, 'unsupported') && /bluebird/.test(error.message));

  // What a callback throws is nobody's rejection.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  await promises.answer(work, () => {
    throw mine;
  });
  await new Promise(setImmediate);
  assert.throws(() => t.mock.timers.tick(10), mine);
});

for (const [one, other] of PAIRS) {
  test(`${one}_excludes_${other}_on_the_same_names`, async () => {
    const [holder, waiter] = [redlock(LIBRARIES[one]), redlock(LIBRARIES[other], { retryDelay: 5, retryJitter: 1, retryCount: 3 })];
    const [a, b, c] = [unique(), unique(), unique()];
    const lock = await holder.lock([a, b], LONG);
    const error = (await caught(waiter.lock([b, c], LONG))) as LockError;
    assert.deepEqual([error.name, error.attempts], ['LockError', 4]);
    assert.ok(!(await fleet.isThere(c)), 'all names or none');
    await lock.extend(2 * LONG);
    await lock.unlock();
    await (await waiter.lock([b, c], LONG)).unlock();
  });

  test(`${one}_and_${other}_get_the_lock_in_turns_and_lose_no_increment`, async () => {
    const name = unique();
    let value = 0;
    const work = async (locks: Redlock): Promise<void> => {
      for (let turn = 0; turn < 20; turn++) {
        const lock = await locks.lock(name, LONG);
        const read = value;
        await fleet.redis.ping();
        value = read + 1;
        await lock.unlock();
      }
    };
    const eager = { retryCount: -1, retryDelay: 5, retryJitter: 5 };
    await Promise.all([work(redlock(LIBRARIES[one], eager)), work(redlock(LIBRARIES[other], eager))]);
    assert.equal(value, 40);
  });
}

test('several_clients_are_a_quorum_that_excludes_the_original', async (t) => {
  const five = await FiveServers.start((close) => t.after(close));
  const clients = (): Client[] => five.clients().slice(0, 3).map(clientOf);
  const eager = { retryCount: 3, retryDelay: 5, retryJitter: 1 };
  for (const [one, other] of PAIRS) {
    const [holder, waiter, name] = [new LIBRARIES[one](clients(), eager), new LIBRARIES[other](clients(), eager), unique()];
    const lock = await holder.lock(name, LONG);
    assert.equal(((await caught(waiter.lock(name, LONG))) as LockError).attempts, 4);
    await (await lock.extend(2 * LONG)).unlock();
    await (await waiter.lock(name, LONG)).unlock();
  }
});

test('a_lock_that_has_ended_is_neither_given_back_nor_extended', async () => {
  const [locks, name] = [redlock(), unique()];
  const released = await locks.lock(name, LONG);
  await released.unlock();
  assert.ok((await caught(released.unlock())) instanceof LockError);
  const late = (await caught(released.extend(LONG))) as LockError;
  assert.deepEqual([late.name, late.attempts], ['LockError', 0]);

  const taken = await locks.lock(name, LONG);
  await fleet.redis.set(name, 'another');
  assert.ok((await caught(taken.extend(LONG))) instanceof Redlock.LockError);
  assert.ok((await caught(taken.unlock())) instanceof LockError);
  assert.equal(await fleet.redis.get(name), 'another');
});

test('an_extension_makes_the_server_keep_the_lock_for_the_ttl', async (t) => {
  const time = new VirtualTime(t);
  const server = new MemoryServer();
  const lock = await new Redlock([clientOf(server)]).lock('a', 1_000);
  await lock.extend(60_000);
  const other = new LockManager(server).mutex('a');
  time.takes(59_998);
  assert.equal(await other.tryAcquire(), null);
  time.takes(3);
  assert.ok(await other.tryAcquire());
});

test('of_two_extensions_at_once_the_last_one_counts', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const lock = await new Redlock([clientOf(server)]).lock(['a', 'b'], 30_000);
  await time.result(Promise.all([lock.extend(5_000), lock.extend(20_000)]));
  const other = new LockManager(server).mutex('a');
  await time.pass(15_000, 100);
  assert.equal(await other.tryAcquire(), null);
  await time.pass(6_000, 100);
  assert.ok(await other.tryAcquire());
});

test('several_names_whose_lock_is_made_shorter_are_kept_for_longer_than_a_timer_of_the_host_takes', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  // Node fires a timer at once if its time doesn't fit into 31 bits.
  t.mock.method(HOST, 'setTimeout', (run: () => void, ms: number) => setTimeout(run, ms < 2 ** 31 ? ms : 1));
  const [DAY, HOUR] = [86_400_000, 3_600_000];
  const lock = await time.result(Promise.resolve(new Redlock([clientOf(server)]).lock(['a', 'b'], 30 * DAY)));
  await time.result(Promise.resolve(lock.extend(26 * DAY)));
  const other = new LockManager(server).mutex('a');
  await time.pass(DAY, HOUR);
  assert.equal(await other.tryAcquire(), null);
  await time.pass(24 * DAY, HOUR);
  assert.equal(await other.tryAcquire(), null);
  await time.pass(DAY, HOUR);
  assert.ok(await other.tryAcquire());
});

test('a_callback_may_take_the_place_of_options', async () => {
  for (const library of Object.values(LIBRARIES)) {
    const locks = redlock(library);
    for (const method of ['lockWithOptions', 'acquireWithOptions'] as const) {
      const name = unique();
      const lock = await new Promise<Lock | undefined>((resolve, reject) => {
        void Promise.resolve(locks[method](name, LONG, (error, lock) => (error ? reject(error) : resolve(lock)))).then(() => setImmediate(reject, new Error('no call')), reject);
      });
      assert.deepEqual(lock?.resource, [name]);
      await lock?.unlock();
    }
  }
});

test('the_options_of_a_call_replace_those_of_the_instance', async (t) => {
  const time = new VirtualTime(t);
  const client = clientOf(new MemoryServer());
  const [holder, waiter] = [new Redlock([client]), new Redlock([client], { retryDelay: 1_000, retryJitter: 0 })];
  const lock = await holder.lockWithOptions('a', 60_000, { retryCount: 3 });
  assert.equal(lock.attemptsRemaining, 2);
  for (const [options, attempts, took] of [[{ retryCount: 2 }, 3, 2_000], [{ retryCount: 4, retryDelay: 10 }, 5, 40], [{ retryCount: 0 }, 1, 0]] as const) {
    const refused = caught(waiter.acquireWithOptions('a', 1_000, options));
    assert.equal(await time.until(refused), took);
    assert.equal(((await refused) as LockError).attempts, attempts);
  }
  waiter.retryCount = 1;
  assert.equal(((await time.result(caught(waiter.lock('a', 1_000)))) as LockError).attempts, 2);
});

test('without_original_processes_waiters_stand_in_a_queue', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const options = { mixedFleet: false, retryDelay: 10_000 };
  const [holder, waiter] = [new Redlock([clientOf(server)], options), new Redlock([clientOf(server)], options)];
  const lock = await holder.lock('a', 30_000);
  const waiting = Promise.resolve(waiter.lock('a', 5_000));
  await time.pass(100);
  await lock.unlock();
  assert.ok((await time.until(waiting)) <= 10, 'it did not sleep for a retryDelay');
});

test('errors_of_a_client_are_events_and_a_lock_that_is_held_is_none', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [holder, waiter] = [new Redlock([clientOf(server)]), new Redlock([clientOf(server)], { retryCount: 2 })];
  const told: Error[] = [];
  waiter.on('clientError', (error: Error) => told.push(error));
  await holder.lock('a', 30_000);
  await time.result(caught(waiter.lock('a', 1_000)));
  assert.equal(told.length, 0);
  server.stop();
  assert.equal(((await time.result(caught(waiter.lock('b', 1_000)))) as LockError).attempts, 3);
  assert.equal(told.length, 3);
});

test('what_the_engine_can_not_do_is_refused_by_name', async () => {
  const client = clientOf(fleet.client());
  const refused: [() => unknown, string, string?][] = [
    [() => new Redlock([]), 'invalid-option', 'clients'],
    [() => new Redlock(client as never), 'invalid-option', 'clients'],
    [() => new Redlock([client, clientOf(fleet.client())]), 'invalid-option', 'clients'],
    [() => new Redlock([client], { lockScript: (script: string) => script } as never), 'unsupported'],
    [() => new Redlock([client], { retryCont: 3 } as never), 'invalid-option', 'retryCont'],
    [() => new Redlock([client], { retryCount: '3' } as never), 'invalid-option', 'retryCount'],
  ];
  for (const [make, code, field] of refused) {
    assert.throws(make, (error) => isLeaseholdError(error) && error.code === code && (field === undefined || (error as { field?: string }).field === field), String(make));
  }
  const locks = new Redlock([client], { retryCount: undefined, unlockScript: undefined } as never);
  const theirs = new Lock(locks, ['a'], 'a value', Date.now() + 5_000, 1);
  const mine = await locks.lock(unique(), LONG);
  Object.assign(mine, { resource: 'another' });
  const calls = [theirs.extend(1_000), theirs.unlock(), mine.extend(1_000), mine.unlock()];
  for (const error of await Promise.all(calls.map(caught))) assert.ok(isLeaseholdError(error, 'unsupported'), String(error));
});

test('quit_ends_the_clients_and_a_lock_outlives_it', async () => {
  const [locks, name] = [redlock(), unique()];
  await locks.lock(name, LONG);
  assert.deepEqual(await locks.quit(), ['OK']);
  assert.ok(await fleet.isThere(name));
});
