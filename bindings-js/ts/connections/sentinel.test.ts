/** Tests locks, waits by message, and all kinds of failovers, with ioredis behind Sentinel. */

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test, type TestContext } from 'node:test';

import { Redis as IoRedis5, type RedisOptions } from 'ioredis-5';
import { Redis as IoRedis6 } from 'ioredis-6';

import { LockManager, type ReconnectEvent } from '../index.js';
import { until } from '../testing/expect.js';
import { GENEROUS } from '../testing/generous.js';
import { kindOf } from '../testing/results.js';
import { expectFailover, PRIMARY, startSentinel, type SentinelSetup } from '../testing/topologies.js';
import type { IoRedis } from './ioredis-types.js';
import { IoRedisSentinelLink } from './ioredis-sentinel.js';

const versions = [
  { name: 'ioredis 5', open: (options: RedisOptions) => new IoRedis5(options) },
  { name: 'ioredis 6', open: (options: RedisOptions) => new IoRedis6(options as object) as unknown as IoRedis5 },
];

type Open = (typeof versions)[number]['open'];

/** A client of the primary that the sentinel names. */
function clientOf(t: TestContext, open: Open, { sentinel }: SentinelSetup): IoRedis5 {
  const redis = open({ sentinels: [{ host: '127.0.0.1', port: sentinel.port }], name: PRIMARY, retryStrategy: () => 20, sentinelRetryStrategy: () => 20 });
  redis.on('error', () => {});
  t.after(() => redis.disconnect());
  return redis;
}

for (const { name, open } of versions) {
  test(`${name}: a lease that the replica has is held through a failover, and nobody else gets it`, async (t) => {
    const watched = await startSentinel(t);
    const managers = [0, 1].map(() => new LockManager(clientOf(t, open, watched), GENEROUS));
    t.after(() => Promise.all(managers.map((locks) => locks.close())));
    const [locks, others] = managers;
    assert.ok(locks && others);

    const reconnects: ReconnectEvent[] = [];
    locks.on('reconnect', (event) => reconnects.push(event));
    const lease = await locks.mutex('a').acquire({ waitForReplicas: { min: 1, timeout: '60s' } });
    await watched.primary.kill();
    await expectFailover(watched);
    const busy = async (): Promise<boolean> => (await others.mutex('a').tryAcquire().catch(() => undefined)) === null;
    await until(busy);
    await until(() => lease.verify().catch(() => false));
    assert.ok(lease.isHeld && (await busy()));
    assert.equal(reconnects.length, 1);
    assert.ok(reconnects[0]?.server?.endsWith(`:${watched.replica.port}`) && reconnects[0].down > 0, JSON.stringify(reconnects));
    // The former replica has no replica of its own.
    await assert.rejects(locks.mutex('b').acquire({ waitForReplicas: { min: 1, timeout: 100 } }), { code: 'not-replicated', confirmed: 0, wanted: 1 });
    assert.equal(await lease.release(), 'released');
    const next = await others.mutex('a').acquire();
    assert.ok(next.fence > lease.fence);
    await next.release();
  });

  test(`${name}: waiters are granted by message, and go on after a failover`, async (t) => {
    const watched = await startSentinel(t);
    const { primary, replica } = watched;
    const client = (): IoRedis5 => clientOf(t, open, watched);
    const [locks, others] = [client(), client()].map((redis) => new LockManager(redis, GENEROUS));
    assert.ok(locks && others);
    t.after(() => Promise.all([locks.close(), others.close()]));
    const waiting = async (count: number): Promise<void> => until(async () => (await locks.inspect('a').catch(() => undefined))?.waiters.length === count);

    const lease = await locks.mutex('a').acquire();
    const next = others.mutex('a').acquire();
    await waiting(1);
    await lease.release();
    const granted = await next;
    assert.ok(granted.fence > lease.fence);

    const last = locks.mutex('a').acquire();
    await waiting(1);
    await primary.kill();
    await expectFailover(watched);
    // The key is on the replica, or it was lost with the primary. In both cases the other client gets the lock after this lease.
    await until(async () => (await granted.release().catch(() => undefined)) !== undefined);
    const after = await last;
    assert.ok(after.fence > granted.fence && after.isHeld);
    assert.equal(await after.verify(), true);
    const holder = new IoRedis6(replica.port, '127.0.0.1');
    const role = await holder.info('replication').finally(() => holder.disconnect());
    assert.match(role, /role:master/);
    assert.equal(await after.release(), 'released');
  });

  test(`${name}: the old primary grants nothing once the sentinel names another, though it still takes writes`, async (t) => {
    const watched = await startSentinel(t);
    const locks = new LockManager(clientOf(t, open, watched), GENEROUS);
    t.after(() => locks.close());
    const old = await locks.mutex('before').acquire();
    const [before, after] = [straight(t, watched.primary.port), straight(t, watched.replica.port)];
    assert.equal(await before.exists('before'), 1);
    await keepWritable(before);
    await failOver(watched);

    // The client learns of the switch at the same moment. The old primary may still grant commands that were sent before.
    let count = 0;
    const isNew = async (): Promise<boolean> => {
      const lease = await locks.mutex(`name:${++count}`).acquire();
      const there = await after.exists(lease.name);
      await lease.release();
      return there === 1;
    };
    await until(isNew);
    t.diagnostic(`${count - 1} grants by the old primary after the switch`);
    for (let i = 0; i < 50; i++) assert.ok(await isNew(), 'granted by the old primary');
    assert.equal(await before.set('still', 'writable'), 'OK', 'the old primary did not know that it was replaced');
    await old.release().catch(() => {});
  });

  test(`${name}: an old primary that wakes up has its late answers discarded`, async (t) => {
    const watched = await startSentinel(t);
    const locks = new LockManager(clientOf(t, open, watched), GENEROUS);
    t.after(() => locks.close());
    await (await locks.mutex('before').acquire()).release();
    const [before, after] = [straight(t, watched.primary.port), straight(t, watched.replica.port)];
    await keepWritable(before);
    watched.primary.pause();
    await expectFailover(watched);
    const asked = locks.mutex('asked').acquire();
    await until(async () => (await named(t, watched)) === watched.replica.port);
    // The command at the old primary is still unanswered. The old primary executes it when it resumes.
    await until(async () => (await after.exists('asked')) === 1);
    watched.primary.resume();
    const lease = await asked;
    await until(async () => (await before.exists('asked')) === 1);
    assert.equal(await after.exists('asked'), 1, 'the old primary ran it, too');
    assert.equal(await lease.verify(), true);
    assert.equal(await lease.release(), 'released');
  });
}

/** A client of one of the servers, whatever its role. */
function straight(t: TestContext, port: number): IoRedis6 {
  const client = new IoRedis6(port, '127.0.0.1');
  client.on('error', () => {});
  t.after(() => client.disconnect());
  return client;
}

/** The port of the primary that the sentinel names. */
async function named(t: TestContext, { sentinel }: SentinelSetup): Promise<number> {
  const client = straight(t, sentinel.port);
  const [, port] = (await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', PRIMARY)) as [string, string];
  client.disconnect();
  return Number(port);
}

/** Prevents the sentinel from telling an old primary that it was replaced. Otherwise it would do so within seconds. */
async function keepWritable(primary: IoRedis6): Promise<void> {
  await primary.call('ACL', 'SETUSER', 'default', '-replicaof', '-slaveof');
}

/** Makes the sentinel promote the replica while the primary is healthy. */
async function failOver(watched: SentinelSetup): Promise<void> {
  const { sentinel, replica } = watched;
  const client = new IoRedis6(sentinel.port, '127.0.0.1');
  try {
    // The sentinel refuses this until it knows the state of the replica.
    await until(() => client.call('SENTINEL', 'FAILOVER', PRIMARY).then(() => true, () => false));
    await until(async () => ((await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', PRIMARY)) as string[])[1] === `${replica.port}`);
  } finally {
    client.disconnect();
  }
}

test('after_its_close_a_call_opens_no_connection_to_a_sentinel', async () => {
  const duplicate = (): never => assert.fail('it has opened one');
  const client = Object.assign(new EventEmitter(), { status: 'ready', options: { sentinels: [{ host: '127.0.0.1', port: 1 }] }, duplicate }) as unknown as IoRedis;
  const link = new IoRedisSentinelLink(client);
  await link.close();
  assert.equal(kindOf(await link.call(['PING'])), 'closed');
});
