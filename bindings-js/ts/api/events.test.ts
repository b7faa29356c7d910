/** What a manager tells its listeners and the subscribers of its channels. */

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test, type TestContext } from 'node:test';

import { createClient } from 'redis-6';

import { recognise } from '../connections/index.js';
import { type BusyError, isLeaseholdError, LockManager, type LockManagerEvents, Owner } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS } from '../testing/generous.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

type Name = keyof LockManagerEvents;
type Heard = { [Event in Name]: [Event, LockManagerEvents[Event]] }[Name];

/** All events of a manager from now on. */
function listenTo(locks: LockManager, ...names: Name[]): Heard[] {
  const heard: Heard[] = [];
  const all: Name[] = ['acquiring', 'acquire', 'release', 'lost', 'blocked', 'reconnect'];
  for (const name of names.length > 0 ? names : all) locks.on(name, (event) => heard.push([name, event] as Heard));
  return heard;
}

/** The payloads of one event. */
function eventsOf<Event extends Name>(heard: readonly Heard[], event: Event): LockManagerEvents[Event][] {
  return heard.filter(([name]) => name === event).map(([, payload]) => payload as LockManagerEvents[Event]);
}

/** The warnings about listeners from now on. */
function warnings(t: TestContext): (Error & { code?: string })[] {
  const heard: Error[] = [];
  const hear = (warning: Error): void => void (warning.name === 'LeaseholdListenerWarning' && heard.push(warning));
  process.on('warning', hear);
  t.after(() => process.off('warning', hear));
  return heard;
}

test('a_lock_that_is_taken_and_given_back_is_told_from_the_call_to_the_release', async () => {
  const [locks, name] = [fleet.manager({ prefix: 'events:' }), unique()];
  const heard = listenTo(locks);
  const lease = await locks.mutex(name).acquire();
  assert.equal(await lease.release(), 'released');
  const [acquire] = eventsOf(heard, 'acquire');
  const [release] = eventsOf(heard, 'release');
  assert.ok(acquire?.code === 'granted' && acquire.waited > 0, JSON.stringify(acquire));
  assert.ok(release !== undefined && release.held >= 0, JSON.stringify(release));
  const { waited } = acquire;
  const { held } = release;
  const { fence } = lease;
  assert.deepEqual(heard, [
    ['acquiring', { id: 1, name, mode: 'exclusive' }],
    ['acquire', { id: 1, name, mode: 'exclusive', code: 'granted', waited, lease: acquire.lease, fence, local: false }],
    ['release', { lease: acquire.lease, name, mode: 'exclusive', fence, held, code: 'released' }],
  ]);
});

test('a_hand_over_inside_the_manager_is_local_and_waits_and_holds_are_measured', async (t) => {
  const [time, locks, name] = [new VirtualTime(t), new LockManager(new MemoryServer()), unique()];
  const heard = listenTo(locks, 'acquire', 'release');
  const first = await locks.mutex(name).acquire();
  const second = locks.mutex(name).acquire();
  await time.pass(700);
  await first.release();
  await (await second).release();
  const [one, two] = eventsOf(heard, 'acquire');
  assert.deepEqual(eventsOf(heard, 'release').map(({ held }) => held), [700, 0]);
  assert.ok(one?.code === 'granted' && two?.code === 'granted');
  assert.deepEqual([one.local, two.local, one.id, two.id], [false, true, 1, 2]);
  assert.ok(one.waited === 0 && two.waited === 700 && one.lease !== two.lease && one.fence < two.fence, JSON.stringify([one, two]));
});

test('the_event_of_a_grant_comes_before_the_lease', async () => {
  const locks = fleet.manager();
  const order: string[] = [];
  locks.on('acquiring', () => order.push('acquiring')).on('acquire', () => order.push('acquire')).on('release', () => order.push('release'));
  const acquiring = locks.mutex(unique()).acquire();
  order.push('called');
  const lease = await acquiring;
  order.push('held');
  await lease.release();
  order.push('released');
  assert.deepEqual(order, ['acquiring', 'called', 'acquire', 'held', 'release', 'released']);
});

test('the_start_of_an_acquire_is_told_in_the_context_of_its_caller', async () => {
  const [locks, store, seen] = [fleet.manager(), new AsyncLocalStorage<string>(), new Array<string | undefined>()];
  locks.on('acquiring', () => seen.push(store.getStore()));
  const calls = {
    acquire: () => locks.mutex(unique()).acquire(),
    tryAcquire: () => locks.mutex(unique()).tryAcquire(),
    run: () => locks.mutex(unique()).run(() => {}),
    request: () => locks.request(unique(), () => {}),
  };
  for (const [name, call] of Object.entries(calls)) await store.run(name, call as () => Promise<unknown>);
  assert.deepEqual(seen, Object.keys(calls));
});

test('every_kind_of_lock_is_told_by_its_mode', async () => {
  const locks = fleet.manager();
  const heard = listenTo(locks);
  const [owner, pages] = [new Owner(), locks.readWrite(unique())];
  const kinds = {
    exclusive: pages.write(), shared: pages.read(), reentrant: locks.reentrant(unique(), owner),
    semaphore: locks.semaphore(unique(), { limit: 2 }), multi: locks.multi(['{m}:1', '{m}:2']),
  };
  for (const lock of Object.values(kinds)) await lock.run(() => {});
  for (const event of ['acquiring', 'acquire', 'release'] as const) {
    assert.deepEqual(eventsOf(heard, event).map(({ mode }) => mode), Object.keys(kinds));
  }
  assert.equal(eventsOf(heard, 'release').at(-1)?.name, '{m}:1, {m}:2');
});

test('an_acquire_that_fails_is_told_with_its_code_and_error', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await others.mutex(name).acquire();
  const heard = listenTo(locks, 'acquire');
  const busy = await caught(locks.mutex(name).acquire({ wait: 500 }));
  assert.equal(await locks.mutex(name).tryAcquire(), null);
  const controller = new AbortController();
  const waiting = caught(locks.mutex(name).acquire({ signal: controller.signal }));
  await until(async () => (await locks.query()).pending.length === 1);
  controller.abort('enough');
  assert.equal(await waiting, 'enough');
  assert.equal(await caught(locks.mutex(name).acquire({ signal: AbortSignal.abort('before') })), 'before');
  await fleet.redis.lpush('a list', 'x');
  await caught(locks.mutex('a list').acquire());
  const last = caught(locks.mutex(name).acquire());
  await locks.close();
  await last;
  await caught(locks.mutex(name).acquire());
  await lease.release();

  const events = eventsOf(heard, 'acquire');
  assert.deepEqual(events.map(({ code }) => code), ['busy', 'busy', 'cancelled', 'cancelled', 'wrong-kind', 'closed', 'closed']);
  assert.deepEqual(events.map(({ id }) => id), [1, 2, 3, 4, 5, 6, 7]);
  const errors = events.map((event) => event.code !== 'granted' && event.error);
  assert.equal(errors[0], busy);
  assert.deepEqual([errors[2], errors[3]], ['enough', 'before']);
  assert.ok((events[0]?.waited ?? 0) >= 500 && events[3]?.waited === 0);
});

test('a_lost_lease_is_told_once_and_its_release_is_not', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  void lease.signal;
  const heard = listenTo(locks, 'lost', 'release');
  await fleet.redis.del(name);
  await until(async () => !(await lease.verify()));
  assert.equal(await lease.release(), 'already-expired');
  const [lost] = eventsOf(heard, 'lost');
  const held = lost?.held ?? 0;
  assert.ok(held > 0);
  assert.deepEqual(heard, [['lost', { lease: lost?.lease, name, mode: 'exclusive', fence: lease.fence, held, reason: 'gone' }]]);
});

test('a_loss_that_only_the_release_finds_is_told_by_its_code', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const heard = listenTo(locks, 'lost', 'release');
  const lease = await locks.mutex(name).acquire();
  await fleet.redis.set(name, 'theirs', 'PX', 300_000);
  assert.equal(await lease.release(), 'not-owner');
  assert.deepEqual(heard.map(([event, payload]) => [event, 'code' in payload && payload.code]), [['release', 'not-owner']]);
});

test('each_hold_tells_its_release_and_only_the_last_one_frees_the_lock', async () => {
  const locks = fleet.manager();
  const heard = listenTo(locks, 'acquire', 'release');
  const lease = await locks.mutex(unique()).acquire();
  const nested = lease.nested();
  await nested.release();
  await nested.release();
  await lease.release();
  assert.deepEqual(eventsOf(heard, 'release').map(({ code }) => code), ['still-held', 'released']);

  const [owner, name] = [new Owner(), unique()];
  const [first, again] = [await locks.reentrant(name, owner).acquire(), await locks.reentrant(name, owner).acquire()];
  await again.release();
  await first.release();
  assert.deepEqual(eventsOf(heard, 'release').slice(2).map(({ code }) => code), ['still-held', 'released']);
  const leases = eventsOf(heard, 'acquire').slice(1).map((event) => event.code === 'granted' && event.lease);
  assert.equal(leases[0], leases[1]);
});

test('a_close_tells_the_end_of_each_lease_once', async () => {
  const locks = fleet.manager();
  const heard = listenTo(locks, 'release', 'lost');
  const leases = [await locks.mutex(unique()).acquire(), await locks.mutex(unique()).acquire()];
  await locks.close();
  await Promise.all(leases.map((lease) => lease.release()));
  assert.deepEqual(eventsOf(heard, 'release').map(({ code, name }) => [code, name]), leases.map(({ name }) => ['closed', name]));
  assert.equal(heard.length, 2);
});

test('a_release_that_fails_is_told_with_the_code_of_its_error', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = new LockManager(server);
  const heard = listenTo(locks, 'release', 'lost');
  const lease = await locks.mutex(unique()).acquire();
  server.delay('10m');
  const released = caught(lease.release());
  await time.until(released);
  assert.equal((await released as { code?: string }).code, 'unreachable');
  assert.deepEqual(heard.map(([event, payload]) => [event, 'code' in payload && payload.code]), [['release', 'unreachable']]);
});

test('listeners_that_throw_break_no_lock_and_each_is_warned_of_once', async (t) => {
  const warned = warnings(t);
  const [locks, others] = [fleet.manager(), fleet.manager()];
  let calls = 0;
  const fails = (): never => {
    throw new Error(`call ${++calls}`);
  };
  for (const event of ['acquiring', 'acquire', 'release', 'lost'] as const) locks.on(event, fails);
  locks.on('acquire', async () => Promise.reject(new Error('a promise')));
  const heard = listenTo(locks, 'acquire');
  const name = unique();
  assert.equal(await locks.mutex(name).run(() => 'done'), 'done');
  await locks.mutex(name).run(() => {});
  const lease = await others.mutex(name).acquire();
  assert.equal(await locks.mutex(name).tryAcquire(), null);
  await lease.release();
  const lost = await locks.mutex(name).acquire();
  await fleet.redis.del(name);
  void lost.verify();
  assert.equal(await lost.lost, 'gone');
  await until(async () => warned.length >= 2 && calls === 11);
  assert.deepEqual(warned.map(({ message }) => /: Error: (.*)/.exec(message)?.[1]), ['call 1', 'a promise']);
  assert.ok(warned.every(({ code }) => code === 'LEASEHOLD_LISTENER_THREW'));
  assert.equal(heard.length, 4);
});

test('a_listener_may_use_the_manager', async (t) => {
  const [time, locks, name] = [new VirtualTime(t), new LockManager(new MemoryServer()), unique()];
  const logged: Promise<unknown>[] = [];
  locks.once('acquire', () => logged.push(locks.mutex(`${name}:log`).run(() => 'logged')));
  locks.once('lost', () => logged.push(locks.mutex(`${name}:log`).run(() => 'lost')));
  const lease = await locks.mutex(name, { ttl: '30s', renew: false }).acquire();
  await time.until(lease.lost, 100);
  assert.equal(await lease.lost, 'expired');
  assert.deepEqual(await Promise.all(logged), ['logged', 'lost']);
});

test('a_listener_is_added_once_and_removed', async () => {
  const [locks, calls] = [fleet.manager(), new Array<string>()];
  const [often, once] = [() => calls.push('often'), () => calls.push('once')];
  const cycle = (): Promise<unknown> => locks.mutex(unique()).run(() => {});
  locks.on('acquire', often).on('acquire', often).once('acquire', once);
  await cycle();
  assert.deepEqual(calls.splice(0), ['often', 'often', 'once']);
  locks.off('acquire', often);
  await cycle();
  assert.deepEqual(calls.splice(0), ['often']);
  locks.off('acquire', often).off('acquire', often).once('acquire', once).off('acquire', once);
  await cycle();
  assert.deepEqual(calls, []);
});

test('an_unknown_event_and_a_listener_that_is_no_function_are_refused', () => {
  const locks = fleet.manager() as unknown as Record<'on' | 'once' | 'off', (event: unknown, listener: unknown) => void>;
  for (const method of ['on', 'once', 'off'] as const) {
    assert.throws(() => locks[method]('loss', () => {}), { code: 'invalid-option', field: 'event', message: /"loss".*'lost'/ });
  }
  assert.throws(() => locks.once('report', () => {}), { code: 'invalid-option', message: /for work that is done once, give options as the third argument/ });
  assert.throws(() => locks.on('lost', undefined), { code: 'invalid-option', field: 'listener' });
});

test('subscribers_of_the_channels_get_the_same_messages', async (t) => {
  const [locks, heard] = [fleet.manager(), new Array<[string | symbol, unknown]>()];
  const hear = (message: unknown, channel: string | symbol): void => void heard.push([channel, message]);
  for (const event of ['acquiring', 'acquire', 'release', 'lost', 'blocked', 'reconnect']) {
    subscribe(`leasehold:${event}`, hear);
    t.after(() => unsubscribe(`leasehold:${event}`, hear));
  }
  const told = listenTo(locks);
  const name = unique();
  await locks.mutex(name).run(() => {});
  const lease = await locks.mutex(name).acquire();
  await fleet.redis.del(name);
  void lease.verify();
  await lease.lost;
  await until(async () => heard.length === 6);
  assert.deepEqual(heard, told.map(([event, message]) => [`leasehold:${event}`, message]));
  assert.deepEqual(told.map(([event]) => event), ['acquiring', 'acquire', 'release', 'acquiring', 'acquire', 'lost']);
});

test('channels_are_told_without_any_listener', async (t) => {
  const [locks, heard, name] = [fleet.manager(), new Array<unknown>(), unique()];
  const hear = (message: unknown): void => void heard.push(message);
  subscribe('leasehold:release', hear);
  t.after(() => unsubscribe('leasehold:release', hear));
  await locks.mutex(name).run(() => {});
  assert.deepEqual(heard.map((message) => (message as { name: string }).name), [name]);
});

test('a_connection_that_works_again_after_a_break_is_told', async (t) => {
  const own = await Fleet.start((end) => t.after(end));
  const { port } = own.server;
  const nodeRedis = createClient({ socket: { port, host: '127.0.0.1', reconnectStrategy: () => 20 } });
  nodeRedis.on('error', () => {});
  await nodeRedis.connect();
  t.after(() => nodeRedis.destroy());
  const others = new LockManager(nodeRedis, GENEROUS);
  t.after(() => others.close());
  const managers = [own.manager(), others];
  const heard = managers.map((locks) => listenTo(locks, 'reconnect'));
  for (const locks of managers) await locks.mutex(unique()).run(() => {});
  assert.deepEqual(heard, [[], []]);
  const began = performance.now();
  await own.server.kill();
  await own.server.restart();
  await until(async () => heard.every((events) => events.length > 0));
  for (const events of heard) {
    const [event] = eventsOf(events, 'reconnect');
    assert.equal(events.length, 1);
    assert.ok(event?.server === `127.0.0.1:${port}` && event.down > 0 && event.down <= performance.now() - began, JSON.stringify(event));
  }
});

test('a_first_connection_that_takes_several_attempts_is_no_reconnect', async (t) => {
  const own = await Fleet.start((end) => t.after(end));
  await own.server.kill();
  const client = own.client();
  let failures = 0;
  client.on('error', () => failures++);
  const locks = new LockManager(client, GENEROUS);
  t.after(() => locks.close());
  const heard = listenTo(locks, 'reconnect');
  const lease = locks.mutex(unique()).acquire();
  await until(async () => failures >= 2);
  await own.server.restart();
  await (await lease).release();
  assert.deepEqual(heard, []);
});

test('a_key_without_a_ttl_is_named_in_the_error_and_reported_once_after_a_claim_window', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const redis = recognise(server);
  const locks = new LockManager(server, { prefix: 'billing:' });
  const heard = listenTo(locks, 'blocked');
  const waits = async (): Promise<BusyError> => {
    const error = await time.result(caught(locks.mutex('door').acquire({ wait: '9s' })));
    assert.ok(isLeaseholdError(error, 'busy'), String(error));
    return error;
  };
  await redis.call(['SET', 'billing:door', "somebody's data", 'PX', '60000']);
  const { holder } = await waits();
  assert.equal(holder, undefined);
  assert.deepEqual(heard, []);

  await redis.call(['SET', 'billing:door', "somebody's data"]);
  const error = await waits();
  assert.deepEqual(error.holder, { clientId: '', label: undefined, held: undefined, isOwn: false, foreign: true });
  assert.match(error.message, /^lock `door`: busy after 9 s; held by another library's key or other data, without a TTL: it never ends by itself$/);
  const [event, ...more] = eventsOf(heard, 'blocked');
  assert.ok(event !== undefined && event.name === 'door' && event.waited >= 3_000 && event.waited <= 4_100, JSON.stringify(heard));
  assert.deepEqual(more, []);

  // The wait does not end early, because the key's owner may delete it.
  const waiting = locks.mutex('door').acquire();
  await time.pass(4_000);
  await redis.call(['DEL', 'billing:door']);
  await (await time.result(waiting)).release();
});

test('keys_without_a_ttl_are_told_however_many_locks_are_busy_meanwhile', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const redis = recognise(server);
  const [locks, others] = [new LockManager(server), new LockManager(server)];
  const heard = listenTo(locks, 'blocked');
  const names = (what: string): string[] => Array.from({ length: 80 }, (_, place) => `${what}:${place}`);
  for (const name of names('data')) await redis.call(['SET', name, "somebody's data"]);
  const held = await time.result(Promise.all(names('job').map((name) => others.mutex(name).acquire())));
  const waits = [...names('data'), ...names('job')].map((name) => caught(locks.mutex(name).acquire({ wait: '9s' })));
  for (const error of await time.result(Promise.all(waits))) assert.ok(isLeaseholdError(error, 'busy'), String(error));
  assert.deepEqual(eventsOf(heard, 'blocked').map(({ name }) => name).sort(), names('data').sort());
  await time.result(Promise.all(held.map((lease) => lease.release())));
});
