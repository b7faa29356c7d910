/** Tests what users of node-redis rely on, beyond the contract of all connections. */

import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';

import { createClient as createClient4, createCluster as createCluster4 } from 'redis-4';
import { createClient as createClient5, createClientPool, createCluster as createCluster5, createSentinel } from 'redis-5';
import { createClient as createClient6, createCluster as createCluster6 } from 'redis-6';

import { keyOfFirst, type Node, startCluster } from '../testing/topologies.js';
import { subscribed } from '../testing/subscription-recorder.js';
import { until } from '../testing/expect.js';
import { kindOf, refusal, text } from '../testing/results.js';
import { Server } from '../testing/server.js';
import type { Link } from './link.js';
import type { NodeRedis } from './node-redis.js';
import { recognise } from './recognise.js';

const versions = [
  { name: 'node-redis 4', create: createClient4 as unknown as Create, createCluster: createCluster4 as unknown as CreateCluster },
  { name: 'node-redis 5', create: createClient5 as unknown as Create, createCluster: createCluster5 as unknown as CreateCluster },
  { name: 'node-redis 6', create: createClient6 as unknown as Create, createCluster: createCluster6 as unknown as CreateCluster },
];

type Create = (options: object) => NodeRedis;
type CreateCluster = (options: object) => Cluster;

interface Cluster {
  connect(): Promise<unknown>;
  disconnect(): unknown;
  on(event: string, listener: () => void): unknown;
}

const ECHO = ['EVAL', 'return {KEYS[1], ARGV[1], 7}', '1', 'name', 'argument'];
const ECHOED = ['name', 'argument', 7];

for (const { name, create, createCluster } of versions) {
  describe(name, () => {
    test('a_client_that_was_never_connected_is_refused', () => {
      const client = create({ url: 'redis://127.0.0.1:1' });
      assert.throws(() => recognise(client), { code: 'invalid-option', message: /`connection` is a node-redis client that is not connected: call its `connect\(\)` first/ });
    });

    test('a_client_that_is_still_connecting_is_waited_for', async (t) => {
      const { client } = await made(t, {});
      const connecting = client.connect();
      const link = linked(t, client);
      assert.deepEqual(text(await link.call(ECHO)), ECHOED);
      await connecting;
    });

    test('a_client_without_an_offline_queue_may_still_be_connecting', async (t) => {
      const { client } = await made(t, { disableOfflineQueue: true });
      const connecting = client.connect();
      const link = linked(t, client);
      assert.deepEqual(text(await link.call(ECHO)), ECHOED);
      await connecting;
    });

    test('a_full_queue_is_unavailable', async (t) => {
      const { client, server } = await made(t, { commandsQueueMaxLength: 10 });
      await client.connect();
      const link = linked(t, client);
      server.pause();
      const out = Array.from({ length: 11 }, () => link.call(ECHO));
      const last = await (out.pop() as (typeof out)[0]);
      assert.equal(kindOf(last), 'unavailable');
      server.resume();
      for (const result of await Promise.all(out)) assert.deepEqual(text(result), ECHOED);
    });

    test('a_key_prefix_of_the_client_does_not_shift_the_locks', async (t) => {
      const { client } = await made(t, { keyPrefix: 'app:' });
      await client.connect();
      const link = linked(t, client);
      assert.deepEqual(text(await link.call(ECHO)), ECHOED);
      const heard = await subscribed(link);
      assert.equal(text(await link.call(['PUBLISH', 'leasehold:channel', 'hello'])), 1);
      assert.equal(await heard.next('message'), 'hello');
    });

    test('type_mappings_of_the_client_change_nothing', async (t) => {
      const { client } = await made(t, { commandOptions: { typeMapping: { 58: String, 36: Buffer, 42: Set }, timeout: 1, abortSignal: AbortSignal.abort() } });
      await client.connect();
      assert.deepEqual(text(await linked(t, client).call(ECHO)), ECHOED);
    });

    for (const RESP of [2, 3]) {
      test(`resp_${RESP}_makes_no_difference`, { skip: name === 'node-redis 4' }, async (t) => {
        const { client } = await made(t, { RESP });
        await client.connect();
        const link = linked(t, client);
        assert.deepEqual(text(await link.call(ECHO)), ECHOED);
        const heard = await subscribed(link);
        assert.equal(text(await link.call(['PUBLISH', 'leasehold:channel', 'hello'])), 1);
        assert.equal(await heard.next('message'), 'hello');
      });
    }

    test('a_client_in_subscriber_mode_is_refused_where_it_takes_no_commands', async (t) => {
      const { client } = await made(t, name === 'node-redis 4' ? {} : { RESP: 2 });
      await client.connect();
      const link = linked(t, client);
      await client.subscribe('anything', () => {});
      assert.equal(kindOf(await link.call(ECHO)), 'unsupported');
      assert.throws(() => recognise(client), { code: 'invalid-option', message: /`connection` is a node-redis client in subscriber mode/ });
    });

    test('a_client_that_subscribes_over_resp_3_goes_on_taking_commands', { skip: name === 'node-redis 4' }, async (t) => {
      const { client } = await made(t, name === 'node-redis 6' ? {} : { RESP: 3 });
      await client.connect();
      await client.subscribe('anything', () => {});
      assert.deepEqual(text(await linked(t, client).call(ECHO)), ECHOED);
    });

    test('a_client_in_legacy_mode_works', { skip: name !== 'node-redis 4' }, async (t) => {
      const { client } = await made(t, { legacyMode: true });
      await client.connect();
      const link = linked(t, client);
      assert.deepEqual(text(await link.call(ECHO)), ECHOED);
      await subscribed(link);
    });

    test('a_cluster_finds_the_node_of_a_key_and_hears_messages_of_every_node', async (t) => {
      const nodes = await startCluster(t);
      const cluster = await connectedCluster(t, nodes);
      const link = recognise(cluster);
      t.after(() => link.close());
      for (let i = 0; i < 20; i++) {
        const key = `name-${i}`;
        assert.deepEqual(text(await link.call(['EVAL', 'return {KEYS[1], ARGV[1]}', '1', key, 'x'])), [key, 'x']);
      }
      assert.match(refusal(await link.call(['EVALSHA', 'f'.repeat(40), '1', 'name'])), /^NOSCRIPT /);
      const heard = await subscribed(link);
      for (const { port, run } of nodes) {
        await run('PUBLISH', 'leasehold:channel', `from ${port}`);
        assert.equal(await heard.next('message'), `from ${port}`);
      }
      link.unsubscribe?.('leasehold:channel');
      for (const { run } of nodes) await until(async () => (await run('CLIENT', 'LIST', 'TYPE', 'pubsub')) === '');
    });

    // This also holds in version 4, but there a client inside the cluster client keeps connecting after everything is closed.
    test('a_cluster_leaves_nothing_behind_for_a_node_that_is_down', { skip: name === 'node-redis 4' }, async (t) => {
      const nodes = await startCluster(t, '--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '60000');
      const cluster = await connectedCluster(t, nodes);
      const link = recognise(cluster);
      t.after(() => link.close());
      const [first] = nodes;
      const key = await keyOfFirst(nodes);
      const out = link.call(['BLPOP', key, '0']);
      await until(async () => String(await first.run('INFO', 'clients')).includes('blocked_clients:1'));
      await first.server.kill();
      assert.equal(kindOf(await out), 'interrupted');
      assert.equal(kindOf(await link.call(['RPUSH', key, 'x'])), 'unavailable');
      await first.server.restart();
      await until(async () => 'reply' in (await link.call(['LLEN', key])));
      assert.equal(text(await link.call(['LLEN', key])), 0);
    });

    async function connectedCluster(t: TestContext, nodes: readonly Node[]): Promise<Cluster> {
      const cluster = createCluster({
        rootNodes: nodes.map(({ port }) => ({ url: `redis://127.0.0.1:${port}` })),
        defaults: { socket: { reconnectStrategy: () => 20 } },
      });
      cluster.on('error', () => {});
      assert.throws(() => recognise(cluster), { code: 'invalid-option', message: /not connected/ });
      await cluster.connect();
      t.after(() => Promise.resolve(cluster.disconnect()).catch(() => {}));
      return cluster;
    }

    async function made(t: TestContext, options: object): Promise<{ server: Server; client: NodeRedis }> {
      const server = await Server.start();
      t.after(() => server.kill());
      const client = create({ url: server.url, ...options });
      client.on('error', () => {});
      t.after(() => Promise.resolve(client.disconnect()).catch(() => {}));
      return { server, client };
    }

    function linked(t: TestContext, client: NodeRedis): Link {
      const link = recognise(client);
      t.after(() => link.close());
      return link;
    }
  });
}

test('a_pool_and_a_sentinel_are_refused_with_a_way_out', () => {
  assert.throws(() => recognise(createClientPool()), { code: 'invalid-option', message: /pool/ });
  assert.throws(() => recognise(createSentinel({ name: 'x', sentinelRootNodes: [] })), { code: 'invalid-option', message: /entinel/ });
});
