/** Tests what users of ioredis rely on, beyond the contract of all connections. */

import assert from 'node:assert/strict';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, test, type TestContext } from 'node:test';

import { Cluster as Cluster5, Redis as IoRedis5, type RedisOptions } from 'ioredis-5';
import { Cluster as Cluster6, Redis as IoRedis6 } from 'ioredis-6';

import { keyOfFirst, startCluster } from '../testing/topologies.js';
import { subscribed } from '../testing/subscription-recorder.js';
import { until } from '../testing/expect.js';
import { kindOf, refusal, text } from '../testing/results.js';
import { Server } from '../testing/server.js';
import type { CallResult, Link } from './link.js';
import { recognise } from './recognise.js';

const versions = [
  { name: 'ioredis 5', open: (port: number, options: RedisOptions) => new IoRedis5(port, '127.0.0.1', options), Cluster: Cluster5 },
  { name: 'ioredis 6', open: (port: number, options: RedisOptions) => new IoRedis6(port, '127.0.0.1', options as object) as unknown as IoRedis5, Cluster: Cluster6 as unknown as typeof Cluster5 },
];

const ECHO = ['EVAL', 'return {KEYS[1], ARGV[1]}', '1', 'name', 'argument'];

for (const { name, open, Cluster } of versions) {
  describe(name, () => {
    test('a_key_prefix_of_the_client_does_not_shift_the_locks', async (t) => {
      const { client, link } = await opened(t, { keyPrefix: 'app:' });
      assert.deepEqual(text(await link.call(ECHO)), ['name', 'argument']);
      assert.equal(text(await link.call(['SET', 'key', 'value'])), 'OK');
      assert.equal(await client.exists('key'), 0);
      const heard = await subscribed(link);
      assert.equal(text(await link.call(['PUBLISH', 'leasehold:channel', 'hello'])), 1);
      assert.equal(await heard.next('message'), 'hello');
    });

    test('numbers_are_numbers_whatever_the_client_makes_of_them', async (t) => {
      const { link } = await opened(t, { stringNumbers: true });
      assert.deepEqual(text(await link.call(['EVAL', "return {1790000000000000, '12', false}", '0'])), [1_790_000_000_000_000, '12', null]);
      assert.equal(text(await link.call(['EVAL', 'return 5', '0'])), 5);
    });

    test('auto_pipelining_changes_nothing', async (t) => {
      const { link } = await opened(t, { enableAutoPipelining: true, keyPrefix: 'app:' });
      assert.deepEqual(text(await link.call(ECHO)), ['name', 'argument']);
    });

    test('a_lazy_client_is_connected_by_the_first_command', async (t) => {
      const { client, link } = await opened(t, { lazyConnect: true });
      assert.equal(client.status, 'wait');
      assert.deepEqual(text(await link.call(ECHO)), ['name', 'argument']);
    });

    test('a_client_without_an_offline_queue_may_still_be_connecting', async (t) => {
      const { client, link } = await opened(t, { enableOfflineQueue: false });
      assert.equal(client.status, 'connecting');
      assert.deepEqual(text(await link.call(ECHO)), ['name', 'argument']);
    });

    test('a_command_timeout_of_the_client_does_not_end_ours', async (t) => {
      const { server, link } = await opened(t, { commandTimeout: 50 });
      await link.call(['PING']);
      server.pause();
      const out = link.call(ECHO);
      setTimeout(() => server.resume(), 200);
      assert.deepEqual(text(await out), ['name', 'argument']);
    });

    test('nothing_is_left_in_the_queue_of_a_client_that_is_not_connected', async (t) => {
      const { client, server, link } = await opened(t, { retryStrategy: () => 60_000 });
      await link.call(['PING']);
      await server.kill();
      await until(async () => client.status === 'reconnecting');
      assert.equal(kindOf(await link.call(['SET', 'key', 'value'])), 'unavailable');
      assert.equal((client as unknown as { offlineQueue: { length: number } }).offlineQueue.length, 0);
    });

    test('commands_of_one_tick_leave_in_one_write', async (t) => {
      const server = await Server.start();
      t.after(() => server.kill());
      const proxy = await countingProxy(t, server.port);
      const client = open(proxy.port, {});
      t.after(() => client.disconnect());
      const link = recognise(client);
      await link.call(['PING']);
      proxy.chunks = 0;
      await Promise.all(Array.from({ length: 50 }, () => link.call(ECHO)));
      assert.equal(proxy.chunks, 1);
    });

    test('a_command_that_is_put_together_goes_as_it_is_and_is_not_sent_again', async (t) => {
      const { server, link } = await opened(t, { keyPrefix: 'app:', retryStrategy: () => 20 });
      const send = (...words: string[]): Promise<CallResult> => {
        const wire = `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`;
        const { send } = link;
        return send === undefined ? assert.fail('it takes none') : new Promise((resolve) => send.call(link, wire, resolve));
      };
      assert.deepEqual(text(await send('EVAL', 'return {KEYS[1], ARGV[1]}', '1', 'näme', 'argument')), ['näme', 'argument']);
      assert.match(refusal(await send('EVALSHA', 'f'.repeat(40), '1', 'name')), /^NOSCRIPT /);
      server.pause();
      const out = send('SET', 'late', 'x');
      await new Promise((resolve) => setTimeout(resolve, 20));
      await server.kill();
      assert.equal(kindOf(await out), 'interrupted');
      await server.restart();
      await until(async () => kindOf(await link.call(['PING'])) === 'reply');
      assert.equal(text(await link.call(['EXISTS', 'late'])), 0);
    });

    test('commands_of_ours_and_of_the_user_get_each_their_own_answer', async (t) => {
      const { client, link } = await opened(t, {});
      await link.call(['PING']);
      const answers = Array.from({ length: 50 }, async (_, i) => {
        const ours = link.call(['EVAL', 'return ARGV[1]', '0', `ours ${i}`]);
        const theirs = client.echo(`theirs ${i}`);
        assert.equal(await theirs, `theirs ${i}`);
        assert.equal(text(await ours), `ours ${i}`);
      });
      await Promise.all(answers);
    });

    test('a_reply_costs_the_same_however_many_managers_share_the_client', async (t) => {
      const { client } = await opened(t, {});
      await client.ping();
      const { commandQueue, stream } = client as unknown as { commandQueue: { peekFront: () => unknown }; stream: NodeJS.ReadStream };
      const listeners = stream.listenerCount('data');
      const links = Array.from({ length: 100 }, () => recognise(client));
      await Promise.all(links.map((link) => link.call(['PING'])));
      let [chunks, looks] = [0, 0];
      const count = (): number => chunks++;
      stream.on('data', count);
      const { peekFront } = commandQueue;
      commandQueue.peekFront = () => (looks++, peekFront.call(commandQueue));
      await links[0]?.call(ECHO);
      // One look is ours, and ioredis may take some of its own.
      assert.ok(looks >= chunks && looks <= 4 * chunks, `${looks} looks at the oldest command for ${chunks} chunks`);
      stream.off('data', count);
      await Promise.all(links.map((link) => link.close()));
      assert.equal(stream.listenerCount('data'), listeners, 'the last manager leaves no listener behind');
    });

    test('a_client_in_subscriber_or_monitor_mode_is_refused', async (t) => {
      const server = await Server.start();
      t.after(() => server.kill());
      // On RESP3, the default of version 6, a client that subscribes still takes commands.
      const subscriber = open(server.port, { protocol: 2 } as object);
      t.after(() => subscriber.disconnect());
      const link = recognise(subscriber);
      await subscriber.subscribe('anything');
      assert.equal(kindOf(await link.call(['PING'])), 'unsupported');
      assert.throws(() => recognise(subscriber), /`connection` is an ioredis client in subscriber mode/);
      const monitor = open(server.port, { monitor: true });
      t.after(() => monitor.disconnect());
      assert.throws(() => recognise(monitor), /`connection` is an ioredis client in monitor mode/);
    });

    test('a_pipeline_is_refused', async (t) => {
      const { client } = await opened(t, {});
      assert.throws(() => recognise(client.pipeline()), { code: 'invalid-option', field: 'connection' });
    });

    test('a_cluster_finds_the_node_of_a_key_and_hears_messages_of_every_node', async (t) => {
      const [first, second] = await startCluster(t);
      const cluster = new Cluster([{ host: '127.0.0.1', port: first.port }], { keyPrefix: 'app:' });
      t.after(() => cluster.disconnect());
      const link = recognise(cluster);
      t.after(() => link.close());
      for (let i = 0; i < 20; i++) {
        const key = `name-${i}`;
        assert.deepEqual(text(await link.call(['EVAL', 'return {KEYS[1], ARGV[1]}', '1', key, 'x'])), [key, 'x']);
      }
      assert.match(refusal(await link.call(['EVALSHA', 'f'.repeat(40), '1', 'name'])), /^NOSCRIPT /);
      const heard = await subscribed(link);
      for (const { port } of [first, second]) {
        const node = open(port, {});
        t.after(() => node.disconnect());
        await node.publish('leasehold:channel', `from ${port}`);
        assert.equal(await heard.next('message'), `from ${port}`);
      }
    });

    test('a_cluster_interrupts_what_was_out_and_does_not_send_it_again', async (t) => {
      const [first, second] = await startCluster(t);
      const cluster = new Cluster([{ host: '127.0.0.1', port: first.port }]);
      t.after(() => cluster.disconnect());
      const link = recognise(cluster);
      await until(async () => kindOf(await link.call(['SET', 'warm', 'x'])) === 'reply');
      const list = 'list-{a}';
      const out = link.call(['BLPOP', list, '0']);
      const admins = [first, second].map(({ port }) => open(port, {}));
      t.after(() => admins.forEach((admin) => admin.disconnect()));
      // Only this connection, so that the cluster stays ready.
      await until(async () => (await Promise.all(admins.map(killBlocked))).includes(true));
      assert.equal(kindOf(await out), 'interrupted');
      await until(async () => kindOf(await link.call(['RPUSH', list, 'x'])) === 'reply');
      assert.equal(text(await link.call(['LLEN', list])), 1);
    });

    test('a_cluster_tells_that_a_slot_moves', async (t) => {
      const nodes = await startCluster(t);
      const [[first, second], key] = [nodes, await keyOfFirst(nodes)];
      const [slot, from, to] = [await first.run('CLUSTER', 'KEYSLOT', key), await first.run('CLUSTER', 'MYID'), await second.run('CLUSTER', 'MYID')];
      await second.run('CLUSTER', 'SETSLOT', `${slot}`, 'IMPORTING', `${from}`);
      await first.run('CLUSTER', 'SETSLOT', `${slot}`, 'MIGRATING', `${to}`);
      const cluster = new Cluster([{ host: '127.0.0.1', port: first.port }]);
      t.after(() => cluster.disconnect());
      const link = recognise(cluster);
      t.after(() => link.close());
      assert.match(refusal(await link.call(['DEL', `{${key}}1`, `{${key}}2`])), /^TRYAGAIN /);
    });

    async function opened(t: TestContext, options: RedisOptions): Promise<{ server: Server; client: IoRedis5; link: Link }> {
      const server = await Server.start();
      t.after(() => server.kill());
      const client = open(server.port, options);
      client.on('error', () => {});
      t.after(() => client.disconnect());
      const link = recognise(client);
      t.after(() => link.close());
      return { server, client, link };
    }
  });
}

/** Whether a client was waiting for an element of a list. */
async function killBlocked(admin: IoRedis5): Promise<boolean> {
  const id = /id=(\d+) .*cmd=blpop/.exec(String(await admin.client('LIST')))?.[1];
  return id !== undefined && (await admin.client('KILL', 'ID', id)) === 1;
}

/** Counts the chunks in which a client's bytes arrive. */
async function countingProxy(t: TestContext, to: number): Promise<{ port: number; chunks: number }> {
  const counted = { port: 0, chunks: 0 };
  const server = createServer((incoming) => {
    const outgoing = connect(to, '127.0.0.1');
    incoming.on('data', () => counted.chunks++);
    incoming.pipe(outgoing).pipe(incoming);
    for (const socket of [incoming, outgoing]) socket.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  counted.port = (server.address() as AddressInfo).port;
  return counted;
}
