/** Tests what users of GLIDE rely on, beyond the contract of all connections. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Decoder, GlideClient, GlideClusterClient, Logger, ProtocolVersion } from '@valkey/valkey-glide';

import { startCluster } from '../testing/topologies.js';
import { subscribed } from '../testing/subscription-recorder.js';
import { kindOf, refusal, text } from '../testing/results.js';
import { Server } from '../testing/server.js';
import { recognise } from './recognise.js';

Logger.init('off');

const ECHO = ['EVAL', 'return {KEYS[1], ARGV[1], 7}', '1', 'name', 'argument'];
const ECHOED = ['name', 'argument', 7];

test('a_glide_cluster_finds_the_node_of_a_key_and_hears_messages_of_every_node', async (t) => {
  const nodes = await startCluster(t);
  const client = await GlideClusterClient.createClient({ addresses: nodes.map(({ port }) => ({ host: '127.0.0.1', port })) });
  const link = recognise(client);
  t.after(async () => {
    await link.close();
    client.close();
  });
  for (let i = 0; i < 20; i++) assert.deepEqual(text(await link.call(['EVAL', 'return KEYS[1]', '1', `name-${i}`])), `name-${i}`);
  assert.match(refusal(await link.call(['EVALSHA', 'f'.repeat(40), '1', 'name'])), /^NOSCRIPT /);
  const heard = await subscribed(link);
  for (const { port, run } of nodes) {
    await run('PUBLISH', 'leasehold:channel', `from ${port}`);
    assert.equal(await heard.next('message'), `from ${port}`);
  }
});

test('a_glide_client_of_any_decoder_protocol_and_subscriptions_will_do', async (t) => {
  const server = await Server.start();
  t.after(() => server.kill());
  const messages: string[] = [];
  const addresses = [{ host: '127.0.0.1', port: server.port }];
  const pubsubSubscriptions = {
    channelsAndPatterns: { 0: new Set(['theirs']) },
    callback: ({ channel }: { channel: unknown }) => messages.push(String(channel)),
  };
  for (const options of [{ defaultDecoder: Decoder.Bytes }, { protocol: ProtocolVersion.RESP2 }, { pubsubSubscriptions }]) {
    const client = await GlideClient.createClient({ addresses, ...options });
    const link = recognise(client);
    assert.deepEqual(text(await link.call(ECHO)), ECHOED);
    const heard = await subscribed(link);
    // The server may not know yet that the previous connection is gone.
    assert.ok(Number(text(await link.call(['PUBLISH', 'leasehold:channel', 'hello']))) >= 1);
    assert.equal(await heard.next('message'), 'hello');
    await link.close();
    assert.deepEqual(messages, []);
    client.close();
  }
});

test('a_glide_that_can_not_subscribe_later_polls', () => {
  const old = { customCommand: async () => null, close: () => {}, config: {} };
  assert.equal(recognise(old).library, 'glide');
  assert.equal(recognise(old).subscribe, undefined);
});

test('a_time_limit_of_glides_own_leaves_open_whether_the_command_ran', async (t) => {
  const server = await Server.start();
  const client = await GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port: server.port }], requestTimeout: 50 });
  t.after(async () => {
    client.close();
    server.resume();
    await server.kill();
  });
  server.pause();
  assert.equal(kindOf(await recognise(client).call(ECHO)), 'timed-out');
});
