/** A request with `steal` takes the lock from its holders. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Cluster } from 'ioredis-6';

import { isLeaseholdError, type Lease, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS } from '../testing/generous.js';
import { startCluster } from '../testing/topologies.js';
import { VirtualTime } from '../testing/virtual-time.js';

const fleet = await Fleet.start();

test('a_free_lock_is_taken_and_given_back', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  assert.equal(await locks.request(name, { steal: true }, async (lease) => (await lease.verify(), 'done')), 'done');
  assert.ok(!(await fleet.isThere(name)));
});

test('the_holder_is_interrupted_with_an_abort_error_and_has_the_smaller_fence', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const victim = await hold(locks, name);
  const fence = await locks.request(name, { steal: true }, (lease) => {
    assert.ok(victim.lease.signal.aborted && !victim.lease.isHeld); // before the thief begins
    return lease.fence;
  });
  assertStolen(await victim.error, name);
  assert.ok(fence > victim.lease.fence);
  assert.equal(await victim.lease.lost, 'revoked');
});

test('a_request_that_was_made_just_before_is_granted_first_and_loses_the_lock', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const order: string[] = [];
  const victim = caught(locks.request(name, () => (order.push('victim'), new Promise(() => {}))));
  const waiting = locks.request(name, () => void order.push('waiter'));
  await locks.request(name, { steal: true }, () => void order.push('thief'));
  assertStolen(await victim, name);
  await waiting;
  assert.deepEqual(order, ['victim', 'thief', 'waiter']);
});

test('a_holder_in_another_process_is_told_at_once_if_it_listens', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  // A client listens once it has waited.
  const first = await hold(locks, name);
  const waiting = hold(others, name);
  await fleet.waiting(name, 1);
  first.end();
  const victim = await waiting;
  await locks.request(name, { steal: true }, () => {});
  assertStolen(await victim.error, name);
});

test('a_holder_that_does_not_listen_finds_out_at_its_next_renewal', async (t) => {
  const [time, server, name] = [new VirtualTime(t), new MemoryServer(), unique()];
  const [locks, others] = [new LockManager(server), new LockManager(server)];
  const victim = await hold(others, name);
  await locks.request(name, { steal: true }, async () => {
    await time.pass(12_000, 100);
    const error = await victim.error;
    if (isLeaseholdError(error, 'lost')) assert.equal(error.reason, 'taken');
    else assertStolen(error, name);
  });
});

test('waiters_keep_their_places_and_get_the_lock_after_the_thief', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const victim = await hold(locks, name);
  const order: string[] = [];
  const waits = [locks.request(name, () => void order.push('local'))];
  for (const place of ['first', 'second']) {
    const { length } = (await locks.inspect(name)).waiters;
    waits.push(fleet.manager().request(name, () => void order.push(place)));
    await fleet.waiting(name, length + 1);
  }
  await locks.request(name, { steal: true }, async () => {
    order.push('thief');
    await victim.error;
    const { held, pending } = await locks.query();
    assert.deepEqual([held.length, pending.length], [1, 1]);
  });
  await Promise.all(waits);
  assert.equal(order[0], 'thief');
  assert.deepEqual(order.filter((who) => who !== 'local'), ['thief', 'first', 'second']);
  assert.ok(order.includes('local'));
});

test('a_stolen_lock_is_given_to_the_next_waiter', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const victim = await hold(locks, name);
  const waiting = hold(others, name);
  await fleet.waiting(name, 1);
  const stolen = await hold(locks, name, { steal: true });
  await victim.error;
  assert.ok(await stolen.lease.verify());
  stolen.end();
  const next = await waiting;
  assert.ok(next.lease.fence > stolen.lease.fence);
  next.end();
  await Promise.all([stolen.done, next.done]);
});

test('all_readers_lose_the_lock', async (t) => {
  const [time, server, name] = [new VirtualTime(t), new MemoryServer(), unique()];
  const [locks, others] = [new LockManager(server), new LockManager(server)];
  const readers = [await hold(locks, name, { mode: 'shared' }), await hold(locks, name, { mode: 'shared' }), await hold(others, name, { mode: 'shared' })];
  await locks.request(name, { steal: true }, async () => {
    await time.pass(12_000, 100);
    for (const { error } of readers) assert.ok(await error);
  });
});

test('the_last_thief_wins', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await hold(locks, name);
  const first = await hold(locks, name, { steal: true });
  const second = await hold(locks, name, { steal: true });
  assertStolen(await first.error, name);
  assert.ok(await second.lease.verify());
  second.end();
  await second.done;
});

test('of_two_thieves_at_one_moment_one_knows_that_it_lost_before_the_other_begins', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  for (let round = 0; round < 10; round++) {
    const victim = await hold(locks, name);
    const granted: Lease[] = [];
    // The winner works until the other one has lost.
    let end = (): void => {};
    const oneLost = new Promise<void>((resolve) => (end = resolve));
    const steal = async (): Promise<unknown> => {
      const request = locks.request(name, { steal: true }, (lease) => {
        assert.ok(granted.every(({ isHeld }) => !isHeld));
        granted.push(lease);
        return oneLost;
      });
      const error = await request.then(() => undefined, (error: unknown) => error);
      end();
      return error;
    };
    const errors = await Promise.all([steal(), steal()]);
    assert.equal(errors.filter((error) => error === undefined).length, 1);
    assertStolen(errors.find((error) => error !== undefined), name);
    assertStolen(await victim.error, name);
  }
});

test('a_mutex_loses_its_lease_too', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  await locks.request(name, { steal: true }, async () => assert.equal(await lease.lost, 'revoked'));
});

test('the_manager_lists_a_stolen_lock_tells_its_events_and_gives_it_back_when_it_closes', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const released: string[] = [];
  locks.on('release', ({ name }) => released.push(name));
  const stolen = await hold(locks, name, { steal: true });
  assert.deepEqual((await locks.query()).held.map(({ name }) => name), [name]);
  assert.deepEqual(await locks.close(), { lost: 1, unreleased: 0 });
  assert.ok(isLeaseholdError(await stolen.error, 'closed'));
  assert.ok(!(await fleet.isThere(name)));
  assert.deepEqual(released, [name]);
  assert.ok(isLeaseholdError(await caught(locks.request(name, { steal: true }, () => {})), 'closed'));
});

test('an_operator_who_takes_the_lock_interrupts_a_request_as_a_thief_does', async () => {
  const [locks, operator, name] = [fleet.manager(), fleet.manager(), unique()];
  const first = await hold(operator, name);
  const waiting = hold(locks, name);
  await fleet.waiting(name, 1);
  first.end();
  const victim = await waiting;
  assert.equal(await operator.forceRelease(name), 1);
  assertStolen(await victim.error, name);
});

test('another_kind_of_lock_is_left_alone', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.semaphore(name, { limit: 2 }).acquire();
  assert.ok(isLeaseholdError(await caught(locks.request(name, { steal: true }, () => {})), 'wrong-kind'));
  assert.ok(await lease.verify());
});

test('a_server_that_has_none_of_the_scripts_lets_no_waiter_go_before_the_thief', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  for (let round = 0; round < 5; round++) {
    const victim = await hold(locks, name);
    let granted = false;
    const waiter = locks.request(name, () => void (granted = true));
    await fleet.redis.script('FLUSH');
    await locks.request(name, { steal: true }, () => assert.ok(!granted));
    assertStolen(await victim.error, name);
    await waiter;
  }
});

test('a_steal_leaves_no_connection_and_no_client_behind', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  await locks.request(name, { steal: true }, () => {});
  const connections = async (): Promise<number> => Number(/connected_clients:(\d+)/.exec(await fleet.redis.info('clients'))?.[1]);
  const before = await connections();
  for (let round = 0; round < 30; round++) {
    const victim = await hold(locks, name);
    await locks.request(name, { steal: true }, () => {});
    await victim.error;
  }
  // The manager itself may have begun to listen.
  await until(async () => (await connections()) <= before + 1);
});

test('a_cluster_gives_a_lock_to_the_thief_before_its_waiters', async (t) => {
  const nodes = await startCluster(t);
  const connect = (): Cluster => {
    const cluster = new Cluster([{ host: '127.0.0.1', port: nodes[0].port }]);
    t.after(() => cluster.disconnect());
    return cluster;
  };
  const [locks, others] = [new LockManager(connect(), GENEROUS), new LockManager(connect(), GENEROUS)];
  for (const name of ['a', 'b', 'c', 'd']) { // names of both nodes
    const victim = await hold(locks, name);
    const waiter = others.request(name, (lease) => lease.fence);
    await until(async () => (await locks.inspect(name)).waiters.length === 1);
    const fence = await locks.request(name, { steal: true }, (lease) => lease.fence);
    assertStolen(await victim.error, name);
    assert.ok(victim.lease.fence < fence && fence < (await waiter));
  }
  await Promise.all([locks.close(), others.close()]);
});

test('the_server_in_memory_can_be_stolen_from', async () => {
  const locks = new LockManager(new MemoryServer());
  const victim = await hold(locks, 'door');
  await locks.request('door', { steal: true }, () => {});
  assertStolen(await victim.error, 'door');
  await locks.close();
});

interface Held {
  readonly lease: Lease;
  /** Lets the callback end. */
  end(): void;
  /** The request's promise. */
  readonly done: Promise<unknown>;
  /** The error with which the request rejects. */
  readonly error: Promise<unknown>;
}

test('a_victim_that_only_reports_the_abort_of_its_signal_is_rejected_as_in_browsers', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  let isHeld = false;
  const victim = caught(locks.request(name, async (lease) => {
    isHeld = true;
    await sleep(3_600_000, undefined, { signal: (lease as Lease).signal });
  }));
  await until(async () => isHeld);
  await locks.request(name, { steal: true }, () => {});
  assertStolen(await victim, name);
});

/** Resolves when a request holds the lock. */
async function hold(locks: LockManager, name: string, options: object = {}): Promise<Held> {
  return new Promise((resolve, reject) => {
    let end = (): void => {};
    const ended = new Promise<void>((done) => (end = done));
    const done = locks.request(name, options, (lease) => {
      resolve({ lease: lease as Lease, end, done, error });
      return ended;
    });
    const error = done.then(() => undefined, (error: unknown) => (reject(error), error));
  });
}

function assertStolen(error: unknown, name: string): void {
  assert.ok(error instanceof DOMException, String(error));
  assert.deepEqual([error.name, error.code], ['AbortError', DOMException.ABORT_ERR]);
  const { cause } = error;
  assert.ok(isLeaseholdError(cause, 'lost') && cause.reason === 'revoked' && cause.lockName === name, String(cause));
}
