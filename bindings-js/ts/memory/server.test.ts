/** Managers of a server in memory, as users' tests have them. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { LockManager, type LockManagerOptions, Owner } from '../index.js';
import { VirtualTime } from '../testing/virtual-time.js';
import { Clock } from './clock.js';
import { MemoryServer } from './index.js';
import { ServerState } from './state.js';

const TTL = 30_000;

function managerOf(t: TestContext, server: MemoryServer, options?: LockManagerOptions): LockManager {
  const locks = new LockManager(server, options);
  t.after(() => locks.close());
  return locks;
}

/** Moves the time in small steps until the promise is settled. Returns its value and the time that this took. */
async function passing<T>(server: MemoryServer, promise: Promise<T>): Promise<{ value: T; took: number }> {
  const began = server.clock.elapsed;
  let isSettled = false;
  const settled = (): void => void (isSettled = true);
  promise.then(settled, settled);
  while (!isSettled) {
    await new Promise(setImmediate);
    server.clock.advance(100);
  }
  return { value: await promise, took: server.clock.elapsed - began };
}

/** Resolves when somebody waits for the lock. */
async function waiting(locks: LockManager, name: string): Promise<void> {
  while ((await locks.inspect(name)).waiters.length === 0);
}

test('a_close_tells_every_holder_before_another_client_gets_the_lock', async (t) => {
  const server = new MemoryServer();
  const [locks, others] = [managerOf(t, server), managerOf(t, server)];
  const [lease, released] = [await locks.mutex('report').acquire(), await locks.mutex('other').acquire()];
  const order: string[] = [];
  lease.signal.addEventListener('abort', () => order.push(lease.signal.reason.code));
  for (const { lost } of [lease, released]) void lost.then((reason) => order.push(`lost: ${reason}`));
  await released.release();
  const next = others.mutex('report').acquire().then((lease) => {
    order.push('granted');
    return lease;
  });
  await waiting(locks, 'report');
  assert.deepEqual(await locks.close(), { lost: 1, unreleased: 0 });
  assert.ok((await next).fence > lease.fence);
  assert.deepEqual(order, ['closed', 'lost: closed', 'granted']);
  assert.ok(!lease.isHeld);
  assert.equal(await lease.lost, 'closed', 'it says so later, too');
});

test('my_job_stops_when_its_lease_is_lost', async (t) => {
  const server = new MemoryServer();
  const lease = await managerOf(t, server).mutex('report').acquire();
  const job = new Promise((_, reject) => lease.signal.addEventListener('abort', () => reject(lease.signal.reason)));
  server.clock.advance('30s');
  await assert.rejects(job, { code: 'lost', reason: 'expired' });
});

test('several_managers_share_a_server_and_a_waiter_is_granted_when_the_holder_releases', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  // A waiter asks again after a third of this time.
  const [one, other] = [managerOf(t, server), managerOf(t, server, { claimWindow: '60s' })];
  const lease = await one.mutex('invoice:42').acquire();
  assert.equal(await other.mutex('invoice:42').tryAcquire(), null);
  const waiter = other.mutex('invoice:42').acquire();
  await waiting(one, 'invoice:42');
  assert.equal(await lease.release(), 'released');
  assert.ok((await time.until(waiter)) < 10_000, 'the grant comes by message, not at the next heartbeat');
  assert.ok((await waiter).fence > lease.fence);
});

test('every_kind_of_lock_runs_on_it_and_a_label_is_shown', async (t) => {
  const server = new MemoryServer();
  const [locks, other] = [managerOf(t, server, { label: 'night' }), managerOf(t, server, { label: 'day' })];
  const leases = [
    await locks.readWrite('a').read().acquire(),
    await locks.reentrant('b', new Owner()).acquire(),
    await locks.semaphore('c', { limit: 2 }).acquire(),
    await locks.multi(['d', 'ключ']).acquire(),
    await locks.mutex('{e}').acquire(),
  ];
  assert.equal(await other.readWrite('a').write().tryAcquire(), null);
  const writer = other.readWrite('a').write().acquire();
  await waiting(locks, 'a');
  assert.deepEqual((await locks.inspect('a')).waiters.map(({ label }) => label), ['day']);
  for (const lease of leases) assert.equal(await lease.release(), 'released');
  assert.equal(await (await writer).release(), 'released');
});

test('every_kind_of_lock_can_be_expired', async (t) => {
  const server = new MemoryServer();
  const locks = managerOf(t, server);
  const leases = [
    await locks.mutex('a').acquire(),
    await locks.readWrite('b').read().acquire(),
    await locks.reentrant('c', new Owner()).acquire(),
    await locks.semaphore('d', { limit: 2 }).acquire(),
  ];
  for (const name of ['a', 'b', 'c', 'd']) assert.equal(server.expire(name), true);
  assert.equal(server.expire('a'), false);
  // The next renewal finds out.
  server.clock.advance(TTL / 3);
  assert.deepEqual(await Promise.all(leases.map(({ lost }) => lost)), ['gone', 'gone', 'gone', 'gone']);
});

test('a_lease_is_renewed_while_time_moves_in_steps', async (t) => {
  const server = new MemoryServer();
  const lease = await managerOf(t, server).mutex('report').acquire();
  for (let hour = 0; hour < 3; hour++) {
    for (let passed = 0; passed < 3_600_000; passed += 5_000) {
      server.clock.advance('5s');
      await lease.verify();
    }
  }
  assert.ok(lease.isHeld);
  assert.ok(lease.remaining > TTL / 2);
});

test('time_that_is_moved_ends_a_fixed_lease_and_a_wait', async (t) => {
  const server = new MemoryServer();
  const [one, other] = [managerOf(t, server), managerOf(t, server)];
  const lease = await one.mutex('report').acquire({ renew: false, ttl: '10m' });
  const waiter = assert.rejects(other.mutex('report').acquire({ wait: '1m' }), { code: 'busy' });
  await waiting(one, 'report');
  server.clock.advance('1m');
  await waiter;
  server.clock.advance('9m');
  assert.equal(await lease.lost, 'expired');
  assert.notEqual(await other.mutex('report').tryAcquire(), null);
});

test('time_never_goes_back', () => {
  const { clock } = new MemoryServer();
  assert.throws(() => clock.advance(-1), { code: 'invalid-option', field: 'time', message: /time can't go back; give how far it moves forward$/ });
  for (const odd of [NaN, '-1s', 'soon', null, undefined]) assert.throws(() => clock.advance(odd as never), { code: 'invalid-option' });
  assert.throws(() => clock.advance('100000d'), { code: 'invalid-option', message: /200 years/ });
  const before = clock.elapsed;
  clock.advance(0);
  clock.advance('1h');
  assert.ok(clock.elapsed >= before + 3_600_000);
});

test('a_server_that_stops_ends_a_lease_at_its_deadline_and_commands_fail', async (t) => {
  const server = new MemoryServer();
  const locks = managerOf(t, server);
  const lease = await locks.mutex('a').acquire();
  server.stop();
  const refused = { code: 'unreachable', message: /server in memory \d+ .*it is stopped; call `start\(\)` first$/ };
  await assert.rejects(passing(server, locks.mutex('b').acquire({ wait: '5s' })), refused);
  assert.equal(lease.isHeld, true);
  server.clock.advance('30s');
  assert.equal(await lease.lost, 'expired');
  server.start();
  assert.notEqual(await locks.mutex('a').tryAcquire(), null);
});

test('a_waiter_gets_the_lock_after_the_server_has_stopped_and_started', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [one, other] = [managerOf(t, server), managerOf(t, server, { claimWindow: '60s' })];
  const lease = await one.mutex('a').acquire();
  const waiter = other.mutex('a').acquire();
  await waiting(one, 'a');
  server.stop();
  server.start();
  await time.result(lease.release());
  assert.ok((await time.until(waiter)) < 10_000, 'it is told that its subscription ended, before its next heartbeat');
  assert.ok((await waiter).fence > lease.fence);
});

test('a_server_that_loses_its_data_loses_the_lease', async (t) => {
  const server = new MemoryServer();
  const lease = await managerOf(t, server).mutex('a').acquire();
  server.flush();
  server.clock.advance(TTL / 3);
  assert.equal(await lease.lost, 'gone');
});

test('after_a_lost_reply_a_waiter_asks_again_and_a_late_reply_costs_its_delay', async (t) => {
  const server = new MemoryServer();
  const locks = managerOf(t, server);
  server.dropNextReply();
  const lost = await passing(server, locks.mutex('a').acquire());
  // After a third of the claim window.
  assert.ok(lost.took >= 1_000, `${lost.took}`);
  assert.equal(await lost.value.release(), 'released');
  server.delay('1s');
  const late = await passing(server, locks.mutex('b').acquire());
  assert.ok(late.took >= 1_000, `${late.took}`);
  server.delay(0);
});

test('a_reply_that_is_held_back_is_lost_at_once_when_the_server_stops', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const locks = managerOf(t, server, { responseTimeout: '60s' });
  await locks.mutex('a').acquire();
  server.delay('10m');
  // The one call that is not sent again.
  const late = locks.forceRelease('a');
  await new Promise(setImmediate);
  server.delay(0);
  server.stop();
  server.start();
  assert.ok((await time.until(late)) < 10_000);
  await assert.rejects(late, { code: 'unreachable', message: /stopped before it answered/ });
});

test('a_closed_manager_is_not_kept_by_the_clock', async () => {
  const server = new MemoryServer();
  const makeAndClose = async (): Promise<WeakRef<object>> => {
    const locks = new LockManager(server);
    const listener = (): void => {};
    locks.on('lost', listener);
    await locks.mutex('a').run(() => {});
    await locks.close();
    return new WeakRef(listener);
  };
  const managers = await Promise.all(Array.from({ length: 20 }, makeAndClose));
  const collect = (globalThis as { gc?: () => void }).gc ?? assert.fail('run with --expose-gc');
  for (let turn = 0; turn < 10 && managers.some((manager) => manager.deref() !== undefined); turn++) {
    await new Promise(setImmediate);
    collect();
  }
  assert.deepEqual(managers.filter((manager) => manager.deref() !== undefined), []);
});

test('a_fault_asked_of_a_stopped_server_is_refused_with_what_to_do', () => {
  const server = new MemoryServer();
  server.stop();
  const refused = { name: 'UnreachableError', code: 'unreachable', message: /^can't reach server in memory \d+: it is stopped; call `start\(\)` first$/ };
  for (const fault of [() => server.flush(), () => server.delay(0), () => server.dropNextReply(), () => server.expire('a')]) assert.throws(fault, refused);
  server.stop();
  server.start();
  assert.equal(server.expire('a'), false);
});

test('bad_input_is_refused', () => {
  const server = new MemoryServer();
  for (const odd of ['', 'leasehold:fence', 7, undefined]) assert.throws(() => server.expire(odd as never), { code: 'invalid-option', field: 'name' });
  assert.throws(() => server.delay(-1), { code: 'invalid-option', field: 'time' });
  assert.throws(() => new MemoryServer({ clock: {} as never }), { code: 'invalid-option', field: 'clock' });
  assert.throws(() => new MemoryServer({ clocks: server.clock } as never), { code: 'invalid-option', field: 'clocks' });
});

test('three_servers_with_one_clock_are_a_quorum_of_which_one_may_stop', async (t) => {
  const first = new MemoryServer();
  const { clock } = first;
  const servers = [first, new MemoryServer({ clock }), new MemoryServer({ clock })];
  const locks = await LockManager.quorum(servers);
  t.after(() => locks.close());
  first.stop();
  const lease = await locks.mutex('invoice:42').acquire();
  servers[1]?.stop();
  clock.advance('30s');
  assert.equal(await lease.lost, 'expired');
  await assert.rejects(LockManager.quorum([first, new MemoryServer(), new MemoryServer()]), { code: 'invalid-option', field: 'servers', message: /different clocks/ });
  first.start();
  await assert.rejects(LockManager.quorum([first, servers[2] as MemoryServer, first]), { code: 'invalid-option', field: 'servers' });
});

test('waiting_for_replicas_is_not_supported', async (t) => {
  const lock = managerOf(t, new MemoryServer()).mutex('a');
  await assert.rejects(lock.acquire({ waitForReplicas: { min: 1, timeout: '1s' } }), { code: 'unsupported' });
});

test('a_message_looks_only_at_the_managers_that_listen_to_its_channel', async () => {
  const server = new ServerState(new Clock());
  let looks = 0;
  const heard: string[] = [];
  const listener = { acknowledged() {}, broken() {}, message: (payload: string) => void heard.push(payload) };
  const subscribe = (name: string): void => server.subscribe({ listener, get channel() { return looks++, name; } });
  for (let number = 0; number < 100; number++) subscribe(`channel:${number}`);
  subscribe('channel:0');
  await new Promise(setImmediate);
  looks = 0;
  server.run(['PUBLISH', 'channel:0', 'hello']);
  await new Promise(setImmediate);
  assert.deepEqual(heard, ['hello', 'hello']);
  assert.ok(looks <= 4, `${looks} looks at a subscription's channel`);
});
