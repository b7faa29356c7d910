/** Tests the labels of holders and waiters. */

import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';

import type { AcquireEvent, BusyError } from '../index.js';
import { LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { defaultLabel } from '../support/host.js';
import { until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS } from '../testing/generous.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();
/** The labels on the server. */
const told = async (): Promise<(string | null)[]> => Promise.all((await fleet.redis.keys('leasehold:client:*')).map((key) => fleet.redis.get(key)));

test('a_lock_that_is_free_and_soon_given_back_tells_no_label', async (t) => {
  const [time, locks] = [new VirtualTime(t), fleet.manager({ label: 'idle' })];
  for (let round = 0; round < 20; round++) {
    const lease = await locks.mutex('door').acquire();
    await time.pass(900, 100);
    await lease.release();
  }
  await time.pass(2_000, 100);
  assert.deepEqual((await told()).filter((label) => label === 'idle'), []);
});

test('the_label_of_a_holder_is_known_a_second_after_its_grant', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [locks, other] = [new LockManager(server, { label: 'web-3' }), new LockManager(server)];
  const label = async (): Promise<unknown> => (await time.result(other.inspect('door'))).holders[0]?.label;
  await (await locks.mutex('door').acquire()).release();
  await time.pass(900);
  // A fixed lease never subscribes. The lock before it was too short.
  const lease = await locks.mutex('door').acquire({ renew: false });
  await time.pass(900);
  assert.equal(await label(), null);
  await time.pass(200);
  assert.equal(await label(), 'web-3');
  await lease.release();
  await Promise.all([locks.close(), other.close()]);
});

test('inspect_shows_who_holds_a_lock_and_who_waits', async (t) => {
  const [time, name] = [new VirtualTime(t), unique()];
  const [first, second, unnamed] = [fleet.manager({ label: 'web-1/17' }), fleet.manager({ label: 'web 2/λ' }), fleet.manager({ label: '' })];
  const lease = await first.mutex(name).acquire();
  // The client tells its label at its first renewal.
  await time.pass(110_000, 1_000);
  const waiting = second.mutex(name).acquire();
  await time.beside(fleet.waiting(name, 1));
  const other = unnamed.mutex(name).acquire();
  await time.beside(fleet.waiting(name, 2));
  await time.beside(until(async () => (await unnamed.inspect(name)).holders[0]?.label === 'web-1/17'));
  await time.beside(until(async () => {
    const { waiters } = await unnamed.inspect(name);
    return waiters[0]?.label === 'web 2/λ' && waiters[1]?.label === null;
  }));
  await lease.release();
  await (await waiting).release();
  await (await other).release();
});

test('inspect_shows_how_long_a_lock_has_been_held_and_waited_for', async (t) => {
  const [time, server] = [new VirtualTime(t), new MemoryServer()];
  const [first, second, third, asker] = [0, 1, 2, 3].map(() => new LockManager(server)) as [LockManager, LockManager, LockManager, LockManager];
  const lease = await first.mutex('door').acquire();
  // The client subscribes at its first renewal.
  await time.pass(12_000, 100);
  const waiting = [second.mutex('door').acquire()];
  await time.pass(2_000, 100);
  waiting.push(third.mutex('door').acquire());
  await time.pass(3_000, 100);
  const { holders: [holder], waiters } = await asker.inspect('door');
  assert.equal(holder?.held, 17_000);
  assert.deepEqual(waiters.map(({ waited }) => waited), [5_000, 3_000]);
  await lease.release();
  for (const next of waiting) await (await next).release();
});

test('inspect_shows_what_managers_call_their_leases_and_how_long_they_have_held_them', async (t) => {
  const [time, server, name] = [new VirtualTime(t), new MemoryServer(), unique()];
  const [first, second, third] = [new LockManager(server, { label: 'web-1' }), new LockManager(server), new LockManager(server)];
  const lock = first.mutex(name, { label: 'a lock', ttl: 1_500 });
  const lease = await lock.acquire({ label: 'job 17' });
  const next = lock.acquire();
  const waiting = second.mutex(name).acquire({ label: 'job λ' });
  // The client subscribes at its first renewal. After a second, the lock would go to the other client.
  await time.pass(600);
  const seen = async (by: LockManager): Promise<{ labels: unknown[]; held: number }> => {
    const { holders: [holder], waiters: [waiter] } = await by.inspect(name);
    return { labels: [holder?.label, holder?.leaseLabel, waiter?.leaseLabel], held: holder?.held ?? assert.fail('it is held') };
  };
  const before = await seen(third);
  assert.deepEqual(before.labels, ['web-1', 'job 17', 'job λ']);
  const own = await seen(first);
  assert.deepEqual(own.labels, ['web-1', 'job 17', 'job λ']);
  assert.deepEqual([before.held, own.held], [600, 600]);
  // A local hand-over does not change the server's time.
  await lease.release();
  const handedOver = await next;
  await time.pass(200);
  const after = await seen(third);
  assert.deepEqual(after.labels, ['web-1', 'a lock', 'job λ']);
  assert.equal(after.held, 200);
  await handedOver.release();
  await (await waiting).release();
});

test('permits_and_several_names_have_labels_of_their_leases', async (t) => {
  const time = new VirtualTime(t);
  const [first, second, name] = [fleet.manager({ prefix: 'p:' }), fleet.manager({ prefix: 'p:' }), unique()];
  const reports = first.semaphore(`${name} reports`, { limit: 5, label: 'one' });
  const leases = [await first.multi([`${name} a`, `${name} b`], { label: 'both' }).acquire(), await reports.acquire(), await reports.acquire({ label: 'two' })];
  // The client subscribes at its first renewal.
  await time.pass(110_000, 1_000);
  for (const [part, label] of [['a', 'both'], ['b', 'both'], ['reports', 'one, two']]) {
    await time.beside(until(async () => {
      const { holders } = await second.inspect(`${name} ${part}`);
      return holders.length > 0 && holders.every(({ leaseLabel }) => leaseLabel === label);
    }));
  }
  for (const lease of leases) await lease.release();
});

test('a_holder_without_a_subscription_is_not_waited_for_and_a_silent_one_for_100_ms', async (t) => {
  const [time, first, second] = [new VirtualTime(t), fleet.manager(), fleet.manager()];
  const [deaf, silent] = [unique(), unique()];
  const lease = await first.mutex(deaf).acquire({ label: 'job 17' });
  // Another client's channel has a subscriber that says nothing.
  const [id, listener] = ['0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b', fleet.client()];
  await listener.subscribe(`leasehold:${id}`);
  await fleet.redis.set(silent, `${id}:1 5`, 'PX', 60_000);
  let answered = 0;
  const inspect = async (name: string): Promise<void> => {
    assert.deepEqual((await second.inspect(name)).holders.map(({ leaseLabel }) => leaseLabel), [null]);
    answered++;
  };
  // The time stands still.
  await inspect(deaf);
  const inspected = inspect(silent);
  await time.pass(99, 1);
  assert.equal(answered, 1);
  // On a slow machine, the client has not asked the holder yet.
  await time.until(inspected);
  await lease.release();
});

test('a_busy_error_tells_who_holds_the_lock_and_for_how_long', async (t) => {
  const [time, server, name] = [new VirtualTime(t), new MemoryServer(), unique()];
  const [first, second] = [new LockManager(server, { label: 'web-3/4711', prefix: 'billing:' }), new LockManager(server, { prefix: 'billing:' })];
  const lease = await first.mutex(name).acquire();
  // The client tells its label at its first renewal.
  await time.pass(12_000, 100);
  const events: AcquireEvent[] = [];
  second.on('acquire', (event) => events.push(event));
  const waiting = second.mutex(name).acquire({ wait: 400 }).then(() => assert.fail(), (error: BusyError) => error);
  assert.ok((await time.until(waiting)) <= 400);
  const error = await waiting;
  const { clientId } = (await first.query()).held[0] as { clientId: string };
  const { held, ...holder } = error.holder ?? assert.fail('the holder is known');
  assert.deepEqual(holder, { clientId, label: 'web-3/4711', isOwn: false, foreign: false });
  // The first fence is 3 ms ahead of the server's clock, and the time is taken from it.
  assert.ok(held !== undefined && Math.abs(held - 12_397) <= 1, `${held}`);
  assert.match(error.message, /busy after [\d.]+ m?s; held by web-3\/4711 for [\d.]+ m?s; its lease expires in /);
  assert.equal((JSON.parse(JSON.stringify(error)) as BusyError).holder?.label, 'web-3/4711');
  // A try asks nobody, and uses what is known.
  assert.equal(await second.mutex(name).tryAcquire(), null);
  const [event] = events.splice(1);
  assert.ok(event?.code === 'busy');
  assert.equal(event.holder?.label, 'web-3/4711');
  // A caller of the same manager holds it.
  const again = first.mutex(name).acquire({ wait: 500 }).then(() => assert.fail(), (error: BusyError) => error);
  await time.until(again);
  const own = await again;
  assert.deepEqual([own.holder?.label, own.holder?.isOwn], ['web-3/4711', true]);
  assert.match(own.message, /; held by this process \(web-3\/4711\) for /);
  await lease.release();
});

test('a_label_is_deleted_by_close_and_lasts_a_day_without_it', async (t) => {
  const time = new VirtualTime(t);
  const [locks, name] = [fleet.manager({ label: 'closing' }), unique()];
  await locks.mutex(name).acquire();
  await time.pass(110_000, 1_000);
  await time.beside(until(async () => (await told()).includes('closing')));
  const { clientId } = (await locks.query()).held[0] as { clientId: string };
  const ttl = await fleet.redis.pttl(`leasehold:client:${clientId}`);
  assert.ok(ttl > 80_000_000 && ttl <= 86_400_000, `${ttl}`);
  await locks.close();
  assert.equal((await told()).includes('closing'), false);
});

test('a_text_on_the_server_that_is_longer_than_128_bytes_is_no_label', async () => {
  const [locks, name] = [fleet.manager({ label: '' }), unique()];
  const lease = await locks.mutex(name).acquire();
  const { clientId } = (await locks.query()).held[0] as { clientId: string };
  await fleet.redis.set(`leasehold:client:${clientId}`, '\u{1F512}'.repeat(33));
  const { holders } = await fleet.manager().inspect(name);
  assert.deepEqual(holders.map(({ label }) => label), [null]);
  await lease.release();
});

test('a_server_that_restarts_empty_gets_the_label_again', async (context) => {
  const other = await Fleet.start((close) => context.after(close));
  const [time, locks] = [new VirtualTime(context), other.manager({ label: 'web-1' })];
  const labels = async (): Promise<boolean> => (await other.redis.keys('leasehold:client:*').catch(() => [])).length === 1;
  await locks.mutex('door').acquire();
  await time.pass(110_000, 1_000);
  await time.beside(until(labels));
  await other.server.restart();
  await until(async () => (await time.pass(1_000, 1_000), labels()));
});

test('without_the_right_to_labels_everything_works_and_they_are_missing', async () => {
  await fleet.redis.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~lock:*', '~leasehold:{*', '~leasehold:fence', 'resetchannels', '&leasehold:*', '+@all');
  const client = fleet.client().duplicate({ username: 'app', password: 'secret' });
  const [locks, name] = [new LockManager(client, { ...GENEROUS, label: 'web-1' }), unique()];
  const lease = await fleet.manager().mutex(name).acquire();
  await assert.rejects(locks.mutex(name).acquire({ wait: 500 }), { code: 'busy' });
  const { holders } = await locks.inspect(name);
  assert.deepEqual(holders.map(({ label }) => label), [null]);
  await lease.release();
  await locks.close();
  client.disconnect();
});

test('a_label_that_cannot_be_one_is_refused_before_anything_is_sent', () => {
  for (const label of ['x'.repeat(1 << 20), 'x'.repeat(129), 'é'.repeat(65), 'a\nb', '\u001b[2J', '\ud800', 7, null, {}]) {
    assert.throws(() => fleet.manager({ label: label as string }), { code: 'invalid-option', field: 'label' });
  }
  fleet.manager({ label: 'é'.repeat(64) }).mutex('door', { label: 'é'.repeat(64) });
});

test('a_label_of_a_lock_that_cannot_be_one_is_refused_before_anything_is_sent', async () => {
  const locks = fleet.manager();
  for (const label of ['x'.repeat(1 << 20), 'x'.repeat(129), 'a\nb', 7] as string[]) {
    assert.throws(() => locks.mutex('door', { label }), { code: 'invalid-option', field: 'label' });
    await assert.rejects(locks.mutex('door').acquire({ label }), { code: 'invalid-option', field: 'label' });
  }
});

test('by_default_a_label_is_the_host_and_the_process', () => {
  assert.equal(defaultLabel(), `${hostname()}/${process.pid}`);
});
