/** After a failover, the address leads to another server. The old server is a replica now and keeps its connections. */

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';

import { Redis } from 'ioredis-6';

import { isLeaseholdError, LockManager, type ReconnectEvent } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { GENEROUS } from '../testing/generous.js';
import { libraries } from '../testing/libraries.js';
import { startProxy } from '../testing/proxy.js';
import { startPrimary, startReplica } from '../testing/topologies.js';
import { turns } from '../testing/virtual-time.js';
import { LeavingLink } from './leaving.js';
import { type NodeRedis, NodeRedisLink } from './node-redis.js';

for (const library of libraries.filter(({ name }) => name !== 'GLIDE 2')) {
  test(`${library.name}: a demoted server is left, leases are kept, and waiters are granted`, async (t) => {
    const primary = await startPrimary();
    t.after(() => primary.kill());
    const replica = await startReplica(primary);
    t.after(() => replica.kill());
    const proxy = await startProxy(primary.port);
    t.after(() => proxy.close());
    const [one, two] = [await library.open(proxy.port), await library.open(proxy.port)];
    const [locks, others] = [one, two].map(({ client }) => new LockManager(client, GENEROUS)) as [LockManager, LockManager];
    t.after(async () => {
      await Promise.all([locks.close(), others.close()]);
      await Promise.all([one.close(), two.close()]);
    });
    const admins = [primary, replica].map(({ port }) => new Redis(port, '127.0.0.1')) as [Redis, Redis];
    t.after(() => admins.forEach((admin) => admin.disconnect()));
    const reconnects: ReconnectEvent[] = [];
    locks.on('reconnect', (event) => reconnects.push(event));

    const lease = await locks.mutex('a').acquire();
    const waiting = others.mutex('a').acquire();
    await until(async () => (await locks.inspect('a')).waiters.length === 1);
    await until(async () => (await admins[1].exists('a')) === 1 && (await admins[1].zcard('leasehold:{a}:queue')) === 1);
    await admins[1].replicaof('NO', 'ONE');
    await admins[0].replicaof('127.0.0.1', replica.port);
    await until(async () => (await admins[0].info('replication')).includes('role:slave'));
    // For a while, the address still leads to the old server, so the manager's first own connection finds a replica again.
    const verified = lease.verify();
    await until(async () => reconnects.length > 0);
      proxy.target = replica.port;

    assert.equal(await verified, true);
    assert.ok(lease.isHeld);
    assert.ok(reconnects.every(({ down }) => down >= 0));
    assert.equal(await lease.release(), 'released');
    const next = await waiting;
    assert.ok(next.fence > lease.fence);
    assert.equal(await next.release(), 'released');
    // The user's client stays where it is.
    assert.match(String(await one.run('INFO', 'replication')), /role:slave/);
  });
}

test('a_manager_that_was_closed_before_the_replicas_answer_opens_no_connection', async () => {
  const refusals: (() => void)[] = [];
  const sendCommand = (): Promise<never> => new Promise((_, reject) => refusals.push(() => reject(new Error("READONLY You can't write against a read only replica."))));
  const client = Object.assign(new EventEmitter(), { isOpen: true, isReady: true, sendCommand }) as unknown as NodeRedis;
  let opened = 0;
  const link = new LeavingLink(new NodeRedisLink(client), () => assert.fail(`it has opened ${++opened}`));
  const calls = [link.call(['SET', 'a', 'b'])];
  await link.close();
  // A command may have waited for another answer.
  calls.push(link.call(['SET', 'c', 'd']));
  for (const refuse of refusals) refuse();
  await turns();
  assert.deepEqual((await Promise.all(calls)).map((result) => 'failure' in result && result.failure.kind), ['interrupted', 'refused']);
  assert.equal(opened, 0);
});

test('a_connection_that_can_not_leave_a_replica_is_told_what_to_do_and_the_servers_text_is_there_once', async () => {
  const call = async (): Promise<never> => Promise.reject(new Error("READONLY You can't write against a read only replica. script: 36564d1ac37b, on @user_script:69."));
  const locks = new LockManager({ call }, GENEROUS);
  const error = await caught(locks.mutex('a').acquire({ wait: 50 }));
  assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
  assert.equal(error.message.split('READONLY').length, 3, error.message);
  assert.match(error.message, /: READONLY You can't write against a read only replica; this connection stays at a replica: let it connect again on READONLY, as ioredis does with `reconnectOnError`$/);
  await locks.close();
});
