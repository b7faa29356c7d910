/** Tests quorums whose members are clusters, groups behind Sentinel and servers: with every library, and when a member fails. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { GlideClusterClient, Logger } from '@valkey/valkey-glide';
import { Cluster as Cluster5 } from 'ioredis-5';
import { Cluster as Cluster6, Redis } from 'ioredis-6';
import { createCluster as createCluster4 } from 'redis-4';
import { createCluster as createCluster6 } from 'redis-6';

import { type Connection, isLeaseholdError, LockManager, type QuorumOptions } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { GENEROUS_QUORUM, QUORUM_WITH_DEAD, RENEWED_SOON, SOON_AGAIN } from '../testing/generous.js';
import { Server } from '../testing/server.js';
import { expectFailover, keyOfFirst, type Node, PRIMARY, type SentinelSetup, startCluster, startSentinel } from '../testing/topologies.js';

const NAME = 'invoice:42';

/** Opens a client of a cluster, as a user of the library would. */
type OpenCluster = (t: TestContext, nodes: readonly Node[]) => Promise<Connection>;

const ioRedis = (create: (nodes: { host: string; port: number }[]) => Cluster6): OpenCluster => async (t, nodes) => {
  const cluster = create(nodes.map(({ port }) => ({ host: '127.0.0.1', port })));
  cluster.on('error', () => {});
  t.after(() => cluster.disconnect());
  return cluster;
};

const nodeRedis = (create: unknown): OpenCluster => async (t, nodes) => {
  const cluster = (create as typeof createCluster6)({
    rootNodes: nodes.map(({ port }) => ({ url: `redis://127.0.0.1:${port}` })),
    defaults: { socket: { reconnectStrategy: () => 20 } },
  });
  cluster.on('error', () => {});
  await cluster.connect();
  t.after(() => cluster.disconnect());
  return cluster as unknown as Connection;
};

const glide: OpenCluster = async (t, nodes) => {
  Logger.init('off');
  const client = await GlideClusterClient.createClient({ addresses: nodes.map(({ port }) => ({ host: '127.0.0.1', port })) });
  t.after(() => client.close());
  return client;
};

const clusterOf = ioRedis((nodes) => new Cluster6(nodes, { clusterRetryStrategy: () => 20, slotsRefreshInterval: 100 }));

const libraries: readonly [string, OpenCluster][] = [
  ['ioredis 5', ioRedis((nodes) => new Cluster5(nodes) as unknown as Cluster6)],
  ['ioredis 6', clusterOf],
  ['node-redis 4', nodeRedis(createCluster4)],
  ['node-redis 6', nodeRedis(createCluster6)],
  ['GLIDE 2', glide],
];

function serverOf(t: TestContext, { port }: { port: number }): Redis {
  const redis = new Redis(port, '127.0.0.1', { retryStrategy: () => 20 });
  redis.on('error', () => {});
  t.after(() => redis.disconnect());
  return redis;
}

function groupOf(t: TestContext, { sentinel }: SentinelSetup): Redis {
  const redis = new Redis({ sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: PRIMARY, retryStrategy: () => 20, sentinelRetryStrategy: () => 20 });
  redis.on('error', () => {});
  t.after(() => redis.disconnect());
  return redis;
}

async function startServer(t: TestContext): Promise<Server> {
  const server = await Server.start();
  t.after(() => server.kill());
  return server;
}

/** Opens a manager. */
async function open(t: TestContext, members: readonly Connection[], options: QuorumOptions = {}): Promise<LockManager> {
  const locks = await LockManager.quorum(members, { ...GENEROUS_QUORUM, ...options });
  // By then the servers are dead. A close may wait for them, so the test doesn't wait for the close.
  t.after(() => void locks.close());
  return locks;
}

/** Whether a server has a key. */
async function has(port: number, name: string): Promise<boolean> {
  const redis = new Redis(port, '127.0.0.1', { retryStrategy: () => null });
  redis.on('error', () => {});
  return redis.exists(name).then((count) => count === 1, () => false).finally(() => redis.disconnect());
}

for (const [library, openCluster] of libraries) {
  test(`${library}: a cluster, a group and a server have one vote each, and the cluster wakes waiters`, async (t) => {
    const [nodes, watched, server] = await Promise.all([startCluster(t), startSentinel(t), startServer(t)]);
    const members = async (): Promise<Connection[]> => [await openCluster(t, nodes), groupOf(t, watched), serverOf(t, server)];
    // A member that answers late is asked again by a waiter's next heartbeat, and by a holder's next renewal.
    const [one, two] = [await open(t, await members(), SOON_AGAIN), await open(t, await members(), SOON_AGAIN)];
    for (const name of [await keyOfFirst(nodes), 'b', 'c', '{d}:1']) {
      const lease = await one.mutex(name).acquire();
      // If a majority answers late, the error is `unreachable` at first.
      await until(async () => isLeaseholdError(await caught(two.mutex(name).acquire({ wait: 500 })), 'busy'));
      const waiting = two.mutex(name).acquire();
      await until(async () => (await one.inspect(name)).waiters.length === 1);
      assert.ok(await lease.verify());
      await lease.extend('8m');
      assert.equal(await lease.release(), 'released');
      const next = await waiting;
      assert.ok(next.fence > lease.fence);
      const there = (): Promise<boolean[]> => Promise.all([...nodes, watched.primary, server].map(({ port }) => has(port, name)));
      await until(async () => (await there()).filter(Boolean).length === 3);
      assert.equal(await next.release(), 'released');
    }
    const keys = (await Promise.all(nodes.map(({ run }) => run('KEYS', 'leasehold:fence*')))).flat() as string[];
    assert.ok(keys.length === 4 && keys.every((key) => key.startsWith('leasehold:fence:quorum:{')), keys.join());
  });
}

test('three_clusters_of_three_libraries_are_a_quorum_and_one_that_is_down_is_done_without', async (t) => {
  const clusters = await Promise.all([startCluster(t), startCluster(t), startCluster(t)]);
  const [first, second, third] = clusters;
  const locks = await open(t, [await clusterOf(t, first), await nodeRedis(createCluster6)(t, second), await glide(t, third)]);
  const others = await open(t, await Promise.all(clusters.map((nodes) => clusterOf(t, nodes))));
  const lease = await locks.mutex(NAME).acquire();
  const hasIt = async (nodes: typeof first): Promise<boolean> => (await Promise.all(nodes.map(({ port }) => has(port, NAME)))).some(Boolean);
  await until(async () => (await Promise.all(clusters.map(hasIt))).every(Boolean));
  assert.equal(await others.mutex(NAME).tryAcquire(), null);
  // The cluster with the queue.
  await Promise.all(first.map(({ server }) => server.kill()));
  assert.ok(lease.isHeld && (await lease.verify()), 'by the other two');
  assert.equal(await others.mutex(NAME).tryAcquire(), null);
  assert.equal(await lease.release(), 'released');
  const next = await others.mutex(NAME).acquire();
  assert.ok(next.fence > lease.fence);
  assert.equal(await next.release(), 'released');
  const members = await Promise.all(clusters.map((nodes) => clusterOf(t, nodes)));
  const late = await open(t, members, QUORUM_WITH_DEAD);
  assert.equal(await late.mutex(NAME).run(() => 'done'), 'done');
  await Promise.all(second.map(({ server }) => server.kill()));
  const error = await caught(late.mutex(NAME).acquire({ wait: '1500ms' }));
  assert.ok(isLeaseholdError(error, 'unreachable') && error.retryable, String(error));
  const atStart = await caught(LockManager.quorum(members, QUORUM_WITH_DEAD));
  assert.ok(isLeaseholdError(atStart, 'unreachable'), String(atStart));
  assert.match(atStart.message, /1 agreed/);
});

for (const [library, openCluster] of libraries) {
  test(`${library}: a cluster that is needed votes after its slot has moved`, async (t) => {
    const [nodes, server, dead] = [await startCluster(t), await startServer(t), await startServer(t)];
    const [from, to] = nodes;
    const name = await keyOfFirst(nodes);
    const members = async (): Promise<Connection[]> => [await openCluster(t, nodes), serverOf(t, server), serverOf(t, dead)];
    const [one, two] = [await open(t, await members()), await open(t, await members())];
    for (const locks of [one, two]) await locks.mutex(name).run(() => {});
    const slot = String(await from.run('CLUSTER', 'KEYSLOT', name));
    const [fromId, toId] = [String(await from.run('CLUSTER', 'MYID')), String(await to.run('CLUSTER', 'MYID'))];
    await to.run('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
    await from.run('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
    // The other two are a majority, so nobody waits for the slot.
    await one.mutex(name).run(() => {});
    await dead.kill();
    // The old node answers `ASK`, and the new one `TRYAGAIN`.
    const error = await caught(one.mutex(name).acquire({ wait: '700ms' }));
    assert.ok(isLeaseholdError(error, 'unreachable') && error.retryable, String(error));
    const waiting = one.mutex(name).acquire();
    for (;;) {
      const keys = (await from.run('CLUSTER', 'GETKEYSINSLOT', slot, '100')) as string[];
      if (keys.length === 0) break;
      for (const key of keys) await from.run('MIGRATE', '127.0.0.1', `${to.port}`, key, '0', '5000');
    }
    for (const { run } of [to, from]) await run('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
    const lease = await waiting;
    assert.ok(await has(to.port, name));
    // The other client still asks the old node, which answers `MOVED`.
    assert.equal(await two.mutex(name).tryAcquire(), null);
    assert.equal(await lease.release(), 'released');
    assert.equal(await (await two.mutex(name).acquire()).release(), 'released');
  });
}

test('a_group_that_fails_over_without_the_lock_frees_it_for_nobody_and_is_won_again', async (t) => {
  const [watched, a, b] = [await startSentinel(t), await startServer(t), await startServer(t)];
  const members = (): Connection[] => [groupOf(t, watched), serverOf(t, a), serverOf(t, b)];
  const [locks, others] = [await open(t, members(), { ttl: RENEWED_SOON }), await open(t, members())];
  const primary = serverOf(t, watched.primary);
  const warnings: Error[] = [];
  const warned = (warning: Error): unknown => warnings.push(warning);
  process.on('warning', warned);
  t.after(() => process.off('warning', warned));
  // From now on, the replica receives nothing.
  watched.replica.pause();
  await primary.call('CLIENT', 'KILL', 'TYPE', 'replica');
  const lease = await locks.mutex(NAME).acquire();
  await until(async () => (await Promise.all([watched.primary, a, b].map(({ port }) => has(port, NAME)))).every(Boolean));
  await watched.primary.kill();
  watched.replica.resume();
  await expectFailover(watched);
  const replica = serverOf(t, watched.replica);
  await until(async () => String(await replica.info('replication')).includes('role:master'));
  for (let i = 0; i < 5; i++) assert.equal(await others.mutex(NAME).tryAcquire(), null, 'two of three members are enough');
  await until(() => has(watched.replica.port, NAME));
  assert.ok(lease.isHeld && (await lease.verify()));
  assert.equal(await lease.release(), 'released');
  const next = await others.mutex(NAME).acquire();
  assert.ok(next.fence > lease.fence);
  await next.release();
  assert.deepEqual(warnings, [], 'no socket has collected listeners');
});

test('a_waiter_in_the_queue_of_a_group_that_fails_over_is_served_by_the_new_primary', async (t) => {
  const [watched, a, b] = [await startSentinel(t), await startServer(t), await startServer(t)];
  const members = (): Connection[] => [groupOf(t, watched), serverOf(t, a), serverOf(t, b)];
  const [locks, others] = [await open(t, members()), await open(t, members())];
  const lease = await locks.mutex(NAME).acquire();
  const waiting = others.mutex(NAME).acquire();
  await until(async () => (await locks.inspect(NAME)).waiters.length === 1);
  // If the replica didn't have the lease yet, the lock would be free for everybody after the failover.
  for (const key of [NAME, `leasehold:{${NAME}}:queue`]) await until(() => has(watched.replica.port, key));
  await watched.primary.kill();
  await expectFailover(watched);
  const replica = serverOf(t, watched.replica);
  await until(async () => String(await replica.info('replication')).includes('role:master'));
  await until(async () => String(await replica.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).includes('cmd=subscribe'));
  await until(async () => (await locks.inspect(NAME)).waiters.length === 1 && (await lease.verify()));
  assert.equal(await lease.release(), 'released');
  const next = await waiting;
  assert.ok(next.fence > lease.fence);
  await until(() => has(watched.replica.port, NAME));
  await next.release();
});

test('a_close_ends_the_connections_that_the_manager_opened_to_its_members_and_no_others', async (t) => {
  const [nodes, watched, server] = await Promise.all([startCluster(t), startSentinel(t), startServer(t)]);
  // The manager's own connections have the name too. The servers' connections among themselves don't.
  const named = { connectionName: 'member' };
  const members = (): [Cluster6, Redis, Redis] => [
    new Cluster6(nodes.map(({ port }) => ({ host: '127.0.0.1', port })), { redisOptions: named }),
    new Redis({ sentinels: [{ host: '127.0.0.1', port: watched.sentinel.port }], name: PRIMARY, ...named }),
    new Redis({ port: server.port, host: '127.0.0.1', ...named }),
  ];
  const all = [watched.sentinel, watched.primary, server, ...nodes].map((one) => serverOf(t, one));
  const count = async (...type: string[]): Promise<number> => {
    const lists = await Promise.all(all.map(async (redis) => String(await redis.call('CLIENT', 'LIST', ...type))));
    return lists.join('').split(' name=member ').length - 1;
  };
  const [ours, theirs] = [members(), members()];
  const clients = [...ours, ...theirs];
  t.after(() => clients.forEach((client) => client.disconnect()));
  const [one, two] = [await open(t, ours), await open(t, theirs)];
  const lease = await one.mutex(NAME).acquire();
  const waiting = caught(two.mutex(NAME).acquire());
  await until(async () => (await one.inspect(NAME)).waiters.length === 1);
  await until(async () => (await count('TYPE', 'pubsub')) >= 3);
  // The waiter goes first: it would get the lease that the other gives back.
  assert.deepEqual([await two.close(), await one.close()], [{ lost: 0, unreleased: 0 }, { lost: 1, unreleased: 0 }]);
  assert.ok(lease.signal.aborted && isLeaseholdError(await waiting, 'closed'));
  await until(async () => (await count('TYPE', 'pubsub')) === 0);
  await Promise.all(clients.map((client) => client.ping()));
  clients.forEach((client) => client.disconnect());
  await until(async () => (await count()) === 0);
});

test('a_cluster_or_a_group_that_is_listed_twice_and_a_server_of_a_cluster_are_refused', async (t) => {
  const [nodes, watched, server] = await Promise.all([startCluster(t), startSentinel(t), startServer(t)]);
  const [first, second] = nodes;
  const [cluster, again, third] = [await clusterOf(t, [first]), await nodeRedis(createCluster6)(t, [second]), serverOf(t, server)];
  const refused: [readonly Connection[], RegExp][] = [
    [[cluster, cluster, third], /one connection twice/],
    [[cluster, again, third], /one cluster twice: connection 1 and connection 2/],
    [[third, await glide(t, [second]), cluster], /one cluster twice/],
    [[cluster, serverOf(t, first), third], /127\.0\.0\.1:\d+, a server of a cluster: pass a client of the whole cluster/],
    [[groupOf(t, watched), serverOf(t, watched.primary), third], /one server twice/],
  ];
  for (const [members, message] of refused) {
    const error = await caught(LockManager.quorum(members));
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'servers', String(error));
    assert.match(error.message, message);
  }
});
