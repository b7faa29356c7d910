/** Tests what every adapter promises, with each version of each library and a real server. */

import assert from 'node:assert/strict';
import type { EventEmitter } from 'node:events';
import { describe, test } from 'node:test';

import { subscribed, SubscriptionRecorder } from '../testing/subscription-recorder.js';
import { until } from '../testing/expect.js';
import { libraries, type Opened } from '../testing/libraries.js';
import { kindOf, refusal, replyOf, text } from '../testing/results.js';
import { Server } from '../testing/server.js';
import type { Link } from './link.js';
import { recognise } from './recognise.js';

for (const library of libraries) {
  describe(library.name, { concurrency: 4 }, () => {
    test('replies_come_as_numbers_nulls_and_bytes', () =>
      connected(async ({ link }) => {
        assert.deepEqual(text(await link.call(['EVAL', "return {7, false, 'x', 1790000000000000, -1}", '0'])), [7, null, 'x', 1_790_000_000_000_000, -1]);
        assert.equal(text(await link.call(['EVAL', 'return 3', '0'])), 3);
        assert.equal(text(await link.call(['EVAL', 'return false', '0'])), null);
        assert.equal(text(await link.call(['EVAL', "return ''", '0'])), '');
        assert.deepEqual(text(await link.call(['EVAL', 'return {}', '0'])), []);
        assert.equal(text(await link.call(['SET', 'key', 'value'])), 'OK');
      }));

    test('text_goes_and_comes_byte_for_byte', () =>
      connected(async ({ link }) => {
        const payload = 'é\0"\r\n{}: 🔒';
        assert.equal(text(await link.call(['EVAL', 'return ARGV[1]', '0', payload])), payload);
        const bytes = replyOf(await link.call(['EVAL', "return '\\255\\0\\254'", '0']));
        assert.ok(bytes instanceof Uint8Array);
        assert.deepEqual([...bytes], [255, 0, 254]);
      }));

    test('a_number_sent_as_text_stays_text', () =>
      connected(async ({ link }) => {
        assert.equal(text(await link.call(['EVAL', 'return ARGV[1]', '0', '0042'])), '0042');
      }));

    test('a_refusal_carries_the_servers_own_words', () =>
      connected(async ({ link, run }) => {
        await run('RPUSH', 'list', 'x');
        assert.match(refusal(await link.call(['EVALSHA', 'f'.repeat(40), '1', 'key'])), /^NOSCRIPT No matching script/);
        assert.match(refusal(await link.call(['GET', 'list'])), /^WRONGTYPE Operation against a key/);
        assert.match(refusal(await link.call(['EVAL', "return redis.call('GET', KEYS[1])", '1', 'list'])), /WRONGTYPE Operation against a key/);
        for (const code of ['READONLY', 'LOADING', 'TRYAGAIN', 'CLUSTERDOWN', 'MASTERDOWN', 'BUSY', 'NOPERM', 'NOAUTH', 'WRONGPASS', 'OOM', 'CROSSSLOT', 'ERR']) {
          assert.equal(refusal(await link.call(['EVAL', `return redis.error_reply('${code} two words')`, '0'])), `${code} two words`);
        }
      }));

    test('a_hundred_commands_of_one_tick_are_all_answered', () =>
      connected(async ({ link }) => {
        const results = await Promise.all(Array.from({ length: 100 }, (_, i) => link.call(['EVAL', 'return ARGV[1]', '0', `${i}`])));
        assert.deepEqual(results.map(text), Array.from({ length: 100 }, (_, i) => `${i}`));
      }));

    test('a_command_that_is_out_when_the_connection_breaks_ends_at_once_and_is_not_sent_again', () =>
      connected(async ({ link, admin, run }) => {
        const out = link.call(['BLPOP', 'nobody', '0']);
        await until(async () => String(await admin('INFO', 'clients')).includes('blocked_clients:1'));
        await admin('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        assert.equal(kindOf(await out), 'interrupted');
        await until(async () => 'reply' in (await link.call(['PING'])));
        await run('RPUSH', 'nobody', 'x');
        assert.equal(text(await link.call(['LLEN', 'nobody'])), 1);
      }));

    test('a_command_sent_while_the_server_is_down_is_not_applied_when_it_is_back', () =>
      connected(async ({ link, server }) => {
        await server.kill();
        // The client notices this by itself, or with its next command.
        await until(async () => !('reply' in (await link.call(['PING']))));
        const kinds = new Set<string>();
        for (let i = 0; i < 2; i++) kinds.add(kindOf(await link.call(['RPUSH', 'late', 'x'])));
        if (link.library !== 'glide') assert.deepEqual([...kinds], ['unavailable']);
        await server.restart();
        await until(async () => 'reply' in (await link.call(['PING'])));
        assert.equal(text(await link.call(['LLEN', 'late'])), 0);
      }));

    test('a_command_sent_while_the_client_connects_anew_leaves_once_it_is_connected', { skip: library.name === 'GLIDE 2' }, () =>
      connected(async ({ link, server }) => {
        // A command waits for a connection for at most a second. On a slow machine a server may take longer to start, and then the command
        // is not sent at all.
        await until(async () => {
          await server.kill();
          await until(async () => kindOf(await link.call(['PING'])) === 'unavailable');
          const held = link.call(['SET', 'held', 'yes']);
          await server.restart();
          const result = await held;
          if ('reply' in result) assert.equal(text(result), 'OK');
          else assert.equal(kindOf(result), 'unavailable');
          return 'reply' in result;
        });
      }));

    test('a_paused_server_that_dies_interrupts_what_was_out', () =>
      connected(async ({ link, server }) => {
        server.pause();
        const out = link.call(['SET', 'key', 'value']);
        await server.kill();
        assert.ok(['interrupted', 'timed-out'].includes(kindOf(await out)));
        await server.restart();
        await until(async () => 'reply' in (await link.call(['PING'])));
        assert.equal(text(await link.call(['EXISTS', 'key'])), 0);
      }));

    test('a_backlog_that_never_left_is_not_applied_later', () =>
      connected(async ({ link, server }) => {
        await link.call(['PING']);
        server.pause();
        const backlog = Array.from({ length: 300 }, () => link.call(['RPUSH', 'late', 'x'.repeat(100_000)]));
        await new Promise((resolve) => setTimeout(resolve, 50));
        await server.kill();
        for (const result of await Promise.all(backlog)) assert.ok(['interrupted', 'timed-out'].includes(kindOf(result)));
        await server.restart();
        await until(async () => 'reply' in (await link.call(['PING'])));
        assert.equal(text(await link.call(['LLEN', 'late'])), 0);
      }));

    test('a_server_that_says_nothing_is_sent_only_so_much_and_goes_on_when_it_speaks_again', { skip: library.name === 'GLIDE 2' }, () =>
      connected(async ({ link, server }) => {
        server.pause();
        const sent = Array.from({ length: 20_000 }, () => link.call(['PING']));
        assert.equal(kindOf(await link.call(['PING'])), 'unavailable');
        server.resume();
        for (const result of await Promise.all(sent)) assert.ok('reply' in result);
        assert.ok('reply' in (await link.call(['PING'])));
      }));

    test('a_subscription_is_acknowledged_and_brings_its_messages', () =>
      connected(async ({ link, run }) => {
        const heard = await subscribed(link);
        assert.equal(await run('PUBLISH', 'leasehold:channel', 'grant é 1'), 1);
        await run('PUBLISH', 'leasehold:other', 'not mine');
        await run('PUBLISH', 'leasehold:channel', 'second');
        assert.equal(await heard.next('message'), 'grant é 1');
        assert.equal(await heard.next('message'), 'second');
      }));

    test('a_subscription_that_is_there_is_told_again_over_the_same_connection', () =>
      connected(async ({ link, run }) => {
        const [first, second] = [new SubscriptionRecorder(), new SubscriptionRecorder()];
        link.subscribe?.('leasehold:channel', first);
        await first.next('acknowledged');
        link.subscribe?.('leasehold:channel', second);
        await second.next('acknowledged');
        assert.equal(await run('PUBLISH', 'leasehold:channel', 'to the second'), 1);
        assert.equal(await second.next('message'), 'to the second');
        assert.deepEqual(first.all, ['acknowledged']);
      }));

    test('a_cut_subscription_is_told_and_can_be_made_again', { skip: library.name === 'GLIDE 2' }, () =>
      connected(async ({ link, admin, server }) => {
        const heard = await subscribed(link);
        await admin('CLIENT', 'KILL', 'TYPE', 'pubsub');
        await heard.next('broken');
        link.subscribe?.('leasehold:channel', heard);
        await heard.next('acknowledged');
        await server.restart();
        await heard.next('broken');
        link.subscribe?.('leasehold:channel', heard);
        await heard.next('acknowledged');
        await until(async () => text(await link.call(['PUBLISH', 'leasehold:channel', 'after'])) === 1);
        assert.equal(await heard.next('message'), 'after');
      }));

    test('a_cut_subscription_of_glide_comes_back_by_itself', { skip: library.name !== 'GLIDE 2' }, () =>
      connected(async ({ link, server }) => {
        const heard = await subscribed(link);
        await server.restart();
        await until(async () => text(await link.call(['PUBLISH', 'leasehold:channel', 'after'])) === 1);
        assert.equal(await heard.next('message'), 'after');
      }));

    test('a_subscription_that_can_not_be_made_is_told', () =>
      connected(async ({ link, server }) => {
        await server.kill();
        const heard = new SubscriptionRecorder();
        link.subscribe?.('leasehold:channel', heard);
        const failure = await heard.next('broken');
        assert.ok(typeof failure === 'object' && ['interrupted', 'unavailable', 'timed-out'].includes(failure.kind));
      }));

    test('a_channel_without_rights_is_refused_in_the_servers_words', { skip: library.name === 'GLIDE 2' }, () =>
      connected(async ({ link, run }) => {
        await run('ACL', 'SETUSER', 'default', 'resetchannels');
        const heard = new SubscriptionRecorder();
        link.subscribe?.('leasehold:channel', heard);
        const failure = await heard.next('broken');
        assert.ok(typeof failure === 'object' && failure.kind === 'refused');
        assert.match(failure.text, /^NOPERM /);
      }));

    test('an_ended_subscription_is_silent_and_can_be_made_again', () =>
      connected(async ({ link, run }) => {
        const heard = new SubscriptionRecorder();
        link.subscribe?.('leasehold:channel', heard);
        link.unsubscribe?.('leasehold:channel');
        link.subscribe?.('leasehold:channel', heard);
        await heard.next('acknowledged');
        link.unsubscribe?.('leasehold:channel');
        await until(async () => (await run('PUBLISH', 'leasehold:channel', 'nobody listens')) === 0);
        assert.deepEqual(heard.all, ['acknowledged']);
        link.subscribe?.('leasehold:channel', heard);
        await heard.next('acknowledged');
      }));

    test('many_channels_go_over_one_connection', () =>
      connected(async ({ link, run, admin }) => {
        const all = Array.from({ length: 50 }, (_, index) => ({ channel: `channel:${index}`, heard: new SubscriptionRecorder() }));
        for (const { channel, heard } of all) link.subscribe?.(channel, heard);
        for (const { heard } of all) await heard.next('acknowledged');
        assert.equal(String(await admin('CLIENT', 'LIST', 'TYPE', 'pubsub')).trim().split('\n').length, 1);
        for (const { channel } of all) assert.equal(await run('PUBLISH', channel, `to ${channel}`), 1);
        for (const { channel, heard } of all) assert.equal(await heard.next('message'), `to ${channel}`);
        for (const { channel } of all.slice(1)) link.unsubscribe?.(channel);
        await until(async () => (await run('PUBLISH', 'channel:49', 'nobody')) === 0);
        assert.equal(await run('PUBLISH', 'channel:0', 'still here'), 1);
        assert.equal(await all[0]?.heard.next('message'), 'still here');
      }));

    test('all_channels_are_told_when_their_connection_breaks', { skip: library.name === 'GLIDE 2' }, () =>
      connected(async ({ link, admin }) => {
        const [first, second] = [new SubscriptionRecorder(), new SubscriptionRecorder()];
        link.subscribe?.('channel:1', first);
        await first.next('acknowledged');
        link.subscribe?.('channel:2', second);
        await second.next('acknowledged');
        await admin('CLIENT', 'KILL', 'TYPE', 'pubsub');
        await first.next('broken');
        await second.next('broken');
        link.subscribe?.('channel:2', second);
        await second.next('acknowledged');
      }));

    test('close_takes_everything_of_ours_away_and_leaves_the_users_client_open', () =>
      connected(async ({ link, client, run, admin, server }) => {
        const heard = await subscribed(link);
        await link.close();
        assert.equal(await run('PING'), 'PONG');
        if (library.emits) {
          const emitter = client as unknown as EventEmitter;
          const unwatched = await library.open(server.port);
          for (const event of ['ready', 'close', 'end', 'reconnecting', 'error']) {
            assert.equal(emitter.listenerCount(event), (unwatched.client as unknown as EventEmitter).listenerCount(event), event);
          }
          await unwatched.close();
        }
        await until(async () => String(await admin('CLIENT', 'LIST', 'TYPE', 'pubsub')) === '');
        assert.deepEqual(heard.all, ['acknowledged']);
      }));

    test('many_managers_share_a_client_without_a_warning', () =>
      connected(async ({ client }) => {
        const warnings: Error[] = [];
        const warn = (warning: Error): unknown => warnings.push(warning);
        process.on('warning', warn);
        const links = Array.from({ length: 50 }, () => recognise(client));
        await Promise.all(links.map((link) => link.call(['PING'])));
        await new Promise(setImmediate);
        process.off('warning', warn);
        assert.deepEqual(warnings, []);
        await Promise.all(links.map((link) => link.close()));
      }));

    test('a_closed_client_is_refused', () =>
      connected(async ({ client, close }) => {
        await close();
        await until(async () => {
          try {
            await recognise(client).close();
            return false;
          } catch (error) {
            assert.ok(error instanceof TypeError);
            assert.equal((error as { code?: string }).code, 'invalid-option');
            assert.equal((error as { field?: string }).field, 'connection');
            return true;
          }
        });
      }));

    test('a_client_that_is_closed_under_us_says_so', () =>
      connected(async ({ link, close }) => {
        const out = link.call(['BLPOP', 'nobody', '0']);
        await new Promise(setImmediate);
        await close();
        assert.equal(kindOf(await out), 'interrupted');
        await until(async () => kindOf(await link.call(['PING'])) === 'closed');
      }));

    interface Context extends Opened {
      readonly server: Server;
      readonly link: Link;
      /** Sends commands over a separate connection, which survives its own `CLIENT KILL`. */
      admin(...args: string[]): Promise<unknown>;
    }

    async function connected(run: (context: Context) => Promise<void>): Promise<void> {
      const server = await Server.start();
      const [opened, other] = [await library.open(server.port), await library.open(server.port)];
      const link = recognise(opened.client);
      try {
        await run({ ...opened, server, link, admin: other.run });
      } finally {
        await link.close();
        await Promise.allSettled([Promise.resolve().then(opened.close), Promise.resolve().then(other.close)]);
        await server.kill();
      }
    }
  });
}
