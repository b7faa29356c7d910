/** A name that holds another kind of lock or other data is refused and left unchanged. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type Lock, type LockManager, Owner } from '../index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';

const fleet = await Fleet.start();

const kinds: Record<string, (locks: LockManager, name: string) => Lock> = {
  mutex: (locks, name) => locks.mutex(name),
  readers: (locks, name) => locks.readWrite(name).read(),
  reentrant: (locks, name) => locks.reentrant(name, new Owner()),
  semaphore: (locks, name) => locks.semaphore(name, { limit: 3 }),
};

test('every_kind_refuses_a_name_that_another_kind_holds', async () => {
  const [locks, other] = [fleet.manager(), fleet.manager()];
  for (const [holder, hold] of Object.entries(kinds)) {
    for (const [taker, take] of Object.entries(kinds)) {
      if (holder === taker || ![holder, taker].some((kind) => kind === 'reentrant' || kind === 'semaphore')) continue;
      const name = unique('door');
      const lease = await hold(locks, name).acquire();
      for (const client of [locks, other]) {
        for (const refused of [await caught(take(client, name).acquire()), await caught(take(client, name).tryAcquire())]) {
          assert.ok(isLeaseholdError(refused, 'wrong-kind'), `${taker} on ${holder}: ${refused}`);
          assert.equal(refused.lockName, name);
        }
      }
      assert.ok(await lease.verify(), `${taker} took the ${holder} away`);
      assert.equal(await lease.release(), 'released');
      await (await take(other, name).acquire()).release();
    }
  }
});

test('foreign_data_is_refused_by_every_kind_and_left_as_it_is', async () => {
  const locks = fleet.manager();
  for (const [command, ...words] of [['HSET', 'name', 'Ada'], ['HSET', 'mode', 'write'], ['ZADD', '100', 'a player'], ['RPUSH', '1'], ['SADD', '1']]) {
    const name = unique('data');
    await fleet.redis.call(command ?? '', name, ...words);
    const before = await fleet.redis.dumpBuffer(name);
    for (const [kind, take] of Object.entries(kinds)) {
      const refused = await caught(take(locks, name).acquire());
      assert.ok(isLeaseholdError(refused, 'wrong-kind'), `${kind} on ${command}: ${refused}`);
    }
    assert.deepEqual(await fleet.redis.dumpBuffer(name), before);
  }
});
