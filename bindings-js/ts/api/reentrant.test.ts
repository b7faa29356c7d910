/** Tests reentrant locks: owners, and clients that use Redisson's format on the same key. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type LockManager, Owner } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { POLLING } from '../testing/generous.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

/** A Java thread, as Redisson stores it on the server. */
const JAVA = '8743c9c0-0795-4907-87fd-6c719a6b4586:42';
const channel = (name: string): string => `redisson_lock__channel:{${name}}`;

async function listeners(name: string): Promise<number> {
  const [, count] = (await fleet.redis.pubsub('NUMSUB', channel(name))) as [string, number];
  return count;
}

/** The connections that are subscribed. */
async function subscribers({ redis }: Fleet): Promise<string[]> {
  const list = String(await redis.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
  return list.split('\n').filter((line) => line !== '');
}

async function javaLocks(name: string, ttl: number): Promise<void> {
  await fleet.redis.hset(name, JAVA, '1');
  await fleet.redis.pexpire(name, ttl);
}

test('an_owner_takes_its_lock_again_and_gives_it_back_as_often', async () => {
  const [locks, owner, name] = [fleet.manager(), new Owner(), unique('account')];
  const lock = locks.reentrant(name, owner);
  const first = await lock.acquire();
  const second = await lock.acquire();
  const third = await lock.tryAcquire();
  assert.ok(third);
  assert.deepEqual([third.fence, third.holdCount, first.holdCount, first.mode], [first.fence, 3, 3, 'exclusive']);
  assert.deepEqual((await locks.query()).held.map(({ name }) => name), [name]);
  assert.equal(await locks.reentrant(name, new Owner()).tryAcquire(), null, 'another owner of the same manager');
  assert.equal(await fleet.manager().reentrant(name, owner).tryAcquire(), null, 'another manager');
  assert.equal(await second.release(), 'still-held');
  assert.equal(await second.release(), 'still-held', 'a second call has the same answer');
  assert.equal(await first.release(), 'still-held');
  assert.ok(third.isHeld && !first.isHeld && (await third.verify()));
  assert.equal(await third.release(), 'released');
  assert.ok(!(await fleet.isThere(name)));
});

test('an_owner_that_waits_twice_gets_both_when_it_is_its_turn', async () => {
  const [locks, owner, name] = [fleet.manager(), new Owner(), unique('account')];
  const lease = await fleet.manager().reentrant(name, new Owner()).acquire();
  const both = [locks.reentrant(name, owner).acquire(), locks.reentrant(name, owner).acquire()];
  const other = locks.reentrant(name, new Owner()).acquire();
  await until(async () => (await locks.query()).pending.length === 3);
  await lease.release();
  const [first, second] = await Promise.all(both);
  assert.deepEqual([first?.holdCount, first?.fence], [2, second?.fence]);
  assert.deepEqual([await first?.release(), await second?.release()], ['still-held', 'released']);
  await (await other).release();
});

test('nested_holds_and_re_entry_are_counted_together', async () => {
  const lock = fleet.manager().reentrant(unique('account'), new Owner());
  const lease = await lock.acquire();
  const nested = lease.nested();
  const again = await lock.acquire();
  assert.equal(again.holdCount, 3);
  assert.deepEqual([await lease.release(), await again.release(), await nested.release()], ['still-held', 'still-held', 'released']);
});

test('run_inside_run_of_the_same_owner_is_at_once', async () => {
  const [locks, owner, name] = [fleet.manager(), new Owner(), unique('account')];
  const pay = (): Promise<number> => locks.reentrant(name, owner).run((lease) => lease.holdCount);
  assert.equal(await locks.reentrant(name, owner).run(() => pay()), 2);
  assert.ok(!(await fleet.isThere(name)));
});

test('a_loss_is_told_once_to_all_handles', async () => {
  const lock = fleet.manager().reentrant(unique('account'), new Owner());
  const [first, second] = [await lock.acquire(), await lock.acquire()];
  await fleet.redis.del(lock.name);
  assert.equal(await second.verify(), false);
  assert.deepEqual([await first.lost, await second.lost], ['gone', 'gone']);
  assert.ok(first.signal.aborted && second.signal.aborted && !first.isHeld);
  assert.deepEqual([await first.release(), await second.release()], ['already-expired', 'already-expired']);
  await (await lock.acquire()).release();
});

test('it_stands_on_the_server_as_redisson_writes_it', async () => {
  const name = unique('account');
  const lease = await fleet.manager().reentrant(name, new Owner()).acquire({ ttl: '5m' });
  const fields = Object.entries(await fleet.redis.hgetall(name));
  assert.equal(fields.length, 1);
  assert.match(fields[0]?.[0] ?? '', /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:\d+$/);
  assert.equal(fields[0]?.[1], '1');
  const left = await fleet.redis.pttl(name);
  assert.ok(left > 200_000 && left <= 300_000, `${left}`);
  await lease.release();
});

test('a_java_holder_excludes_us_and_its_message_wakes_us', async (t) => {
  const name = unique('account');
  await javaLocks(name, 600_000);
  // The timers stand still, so no heartbeat finds the lock: only the message can.
  new VirtualTime(t);
  const locks = fleet.manager();
  const lock = locks.reentrant(name, new Owner());
  assert.equal(await lock.tryAcquire(), null);
  const waiting = lock.acquire();
  await until(async () => (await listeners(name)) === 1);
  // Its last attempt after the acknowledgement has been answered.
  await locks.query();
  assert.equal(await fleet.redis.hget(name, JAVA), '1', 'the other client still holds it');
  await fleet.redis.del(name);
  await fleet.redis.publish(channel(name), '0');
  const lease = await waiting;
  await until(async () => (await listeners(name)) === 0);
  await lease.release();
});

test('a_holder_that_never_publishes_or_dies_lets_a_waiter_in', async () => {
  const [locks, name] = [fleet.manager(POLLING), unique('account')];
  for (const dies of [false, true]) {
    await javaLocks(name, dies ? 500 : 600_000);
    const waiting = locks.reentrant(name, new Owner()).acquire();
    if (!dies) {
      await until(async () => (await listeners(name)) === 1);
      await fleet.redis.del(name);
    }
    await (await waiting).release();
  }
});

test('our_release_is_told_to_those_who_listen_and_our_lease_is_renewed', async (t) => {
  const [time, locks, name] = [new VirtualTime(t), fleet.manager(), unique('account')];
  const lease = await locks.reentrant(name, new Owner()).acquire();
  await fleet.redis.pexpire(name, 120_000);
  await time.pass(110_000, 1_000);
  await time.beside(until(async () => (await fleet.redis.pttl(name)) > 120_000));
  const java = fleet.client();
  await java.subscribe(channel(name));
  const told = new Promise((resolve) => java.once('message', (_, payload) => resolve(payload)));
  await lease.release();
  assert.equal(await told, '0');
  const next = await locks.reentrant(name, new Owner()).acquire();
  assert.ok(next.fence > lease.fence);
  await next.release();
});

test('what_java_takes_after_our_end_is_left_to_it', async () => {
  const name = unique('account');
  const lease = await fleet.manager().reentrant(name, new Owner()).acquire();
  await fleet.redis.del(name);
  await javaLocks(name, 600_000);
  assert.equal(await lease.verify(), false);
  assert.equal(await lease.lost, 'taken');
  assert.equal(await lease.release(), 'not-owner');
  assert.equal(await fleet.redis.hget(name, JAVA), '1');
});

test('waiters_for_many_names_share_one_connection_and_close_takes_it_away', async () => {
  const own = await Fleet.start();
  try {
    const [holder, locks] = [own.manager(), own.manager()];
    const names = Array.from({ length: 40 }, () => unique('account'));
    const held = await Promise.all(names.map((name) => holder.reentrant(name, new Owner()).acquire()));
    const waits = names.map((name) => locks.reentrant(name, new Owner()).acquire());
    const channels = async (): Promise<number> => ((await own.redis.pubsub('CHANNELS', 'redisson_lock__channel:*')) as string[]).length;
    await until(async () => (await channels()) === names.length);
    assert.equal((await subscribers(own)).length, 1);
    await Promise.all(held.map((lease) => lease.release()));
    await Promise.all(waits.map(async (wait) => (await wait).release()));
    await until(async () => (await channels()) === 0);
    await locks.close();
    await until(async () => (await subscribers(own)).length === 0);
  } finally {
    await own.close();
  }
});

test('owners_of_several_managers_exclude_each_other_and_all_get_their_turn', async () => {
  const name = unique('account');
  let inside = 0;
  const task = async (locks: LockManager): Promise<void> => {
    const lock = locks.reentrant(name, new Owner());
    for (let round = 0; round < 10; round++) {
      const lease = await lock.acquire();
      const again = await lock.acquire();
      assert.equal(inside++, 0, 'two at once');
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
      await again.release();
      await lease.release();
    }
  };
  const managers = [fleet.manager(), fleet.manager()];
  await Promise.all(managers.flatMap((locks) => [1, 2, 3].map(() => task(locks))));
  assert.ok(!(await fleet.isThere(name)));
  await until(async () => (await listeners(name)) === 0);
});

test('a_reentrant_lock_has_no_readers', async () => {
  const lease = await fleet.manager().reentrant(unique('account'), new Owner()).acquire();
  const refused = await caught(lease.downgrade());
  assert.ok(isLeaseholdError(refused, 'unsupported'), `${refused}`);
  assert.ok(lease.isHeld);
  await lease.release();
});
