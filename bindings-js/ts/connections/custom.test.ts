import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { SubscriptionRecorder } from '../testing/subscription-recorder.js';
import { kindOf, refusal, text } from '../testing/results.js';
import { VirtualTime } from '../testing/virtual-time.js';
import type { CustomConnection } from './custom.js';
import type { Link } from './link.js';
import { recognise } from './recognise.js';

function custom(call: (args: string[]) => unknown, subscribe?: CustomConnection['subscribe']): Link {
  return recognise(subscribe === undefined ? { call } : { call, subscribe });
}

test('any_flat_reply_of_a_custom_connection_is_read', async () => {
  for (const [given, read] of [[1, 1], [7n, 7], [null, null], [undefined, null], ['text', 'text'], [true, 1], [[1, 'a', null, 2n], [1, 'a', null, 2]]]) {
    assert.deepEqual(text(await custom(async () => given).call(['PING'])), read);
  }
});

test('a_nested_reply_of_a_custom_connection_is_no_reply_of_ours_and_does_no_harm', async () => {
  const cycle: unknown[] = [];
  cycle.push(cycle, { toString: () => 'object' });
  assert.equal(kindOf(await custom(async () => [[1, [2]], { a: 1 }, Symbol('x')]).call(['PING'])), 'reply');
  assert.equal(kindOf(await custom(async () => cycle).call(['PING'])), 'reply');
  assert.equal(kindOf(await custom(async () => Object.create(null)).call(['PING'])), 'interrupted');
});

test('the_arguments_are_the_callers_to_keep', async () => {
  const args = ['EVAL', 'x'];
  await custom(async (given) => given.push('y')).call(args);
  assert.deepEqual(args, ['EVAL', 'x']);
});

test('an_error_of_a_custom_connection_tells_how_far_the_command_came', async () => {
  const failing = (error: unknown): Promise<string> => custom(async () => Promise.reject(error)).call(['PING']).then(kindOf);
  assert.equal(refusal(await custom(async () => Promise.reject(new Error('NOSCRIPT No matching script'))).call(['PING'])), 'NOSCRIPT No matching script');
  assert.equal(await failing(Object.assign(new Error('no connection'), { sent: false })), 'unavailable');
  assert.equal(await failing(Object.assign(new Error('a cluster'), { code: 'unsupported' })), 'unsupported');
  assert.equal(await failing(new Error('the connection broke')), 'interrupted');
  assert.equal(await failing(new Error('HTTP 503 from the gateway')), 'interrupted');
  assert.equal(await failing(new Error('A connection broke')), 'interrupted');
  assert.equal(await failing(Object.assign(new Error('READ ECONNRESET'), { syscall: 'read' })), 'interrupted');
  for (const odd of [undefined, null, 'NOSCRIPT as a string', 5, {}, { message: 5 }, new Error(''), Object.create(null), Symbol('x')]) assert.equal(await failing(odd), 'interrupted');
});

test('a_custom_connection_that_throws_at_once_fails_no_differently', async () => {
  const link = custom(() => {
    throw new Error('the connection broke');
  });
  assert.equal(kindOf(await link.call(['PING'])), 'interrupted');
});

test('without_subscribe_there_is_no_subscription', () => {
  assert.equal(custom(async () => null).subscribe, undefined);
});

test('a_custom_subscription_is_acknowledged_heard_told_when_it_ends_and_ended_once', async () => {
  const channels: string[] = [];
  let [send, end]: [(payload: string) => void, (error?: unknown) => void] = [() => {}, () => {}];
  let ended = 0;
  const link = custom(
    async () => null,
    async (channel, onMessage, onEnd) => {
      channels.push(channel);
      [send, end] = [onMessage, onEnd];
      return () => ended++;
    },
  );
  const heard = new SubscriptionRecorder();
  link.subscribe?.('leasehold:channel', heard);
  await heard.next('acknowledged');
  send('hello');
  assert.equal(await heard.next('message'), 'hello');
  end(new Error('it broke'));
  await heard.next('broken');
  link.subscribe?.('leasehold:channel', heard);
  await heard.next('acknowledged');
  await link.close();
  send('too late');
  end();
  await new Promise(setImmediate);
  assert.equal(ended, 2);
  assert.deepEqual(channels, ['leasehold:channel', 'leasehold:channel']);
  assert.deepEqual(heard.all, ['acknowledged', 'message', 'broken', 'acknowledged']);
});

test('bytes_are_heard_as_text_and_what_is_no_message_does_no_harm', async () => {
  let send: (payload: unknown) => void = () => {};
  const link = custom(async () => null, (_, onMessage) => ((send = onMessage as typeof send), () => {}));
  const heard = new SubscriptionRecorder();
  link.subscribe?.('leasehold:channel', heard);
  await heard.next('acknowledged');
  send(new TextEncoder().encode('hello'));
  assert.equal(await heard.next('message'), 'hello');
  send({});
  assert.equal(await heard.next('message'), '');
});

test('a_custom_subscription_that_fails_is_told_and_one_that_is_given_up_early_is_ended', async () => {
  const refused = custom(async () => null, () => Promise.reject(new Error('NOPERM no rights on the channel')));
  const heard = new SubscriptionRecorder();
  refused.subscribe?.('leasehold:channel', heard);
  const failure = await heard.next('broken');
  assert.ok(typeof failure === 'object' && failure.kind === 'refused');
  // An error that has no text. A rejection that nobody handles would end the test.
  custom(async () => null, () => Promise.reject(Object.create(null))).subscribe?.('leasehold:channel', heard);
  await heard.next('broken');

  let ended = false;
  let subscribed: () => void = () => {};
  const slow = custom(async () => null, () => new Promise((resolve) => (subscribed = () => resolve(() => (ended = true)))));
  slow.subscribe?.('leasehold:channel', heard);
  await new Promise(setImmediate);
  slow.unsubscribe?.('leasehold:channel');
  subscribed();
  await new Promise(setImmediate);
  assert.ok(ended);
  assert.deepEqual(heard.all, ['broken', 'broken']);
});

test('a_custom_subscribe_that_answers_at_once_or_throws_will_do', async () => {
  const heard = new SubscriptionRecorder();
  custom(async () => null, (_, onMessage) => (onMessage('at once'), () => {})).subscribe?.('leasehold:channel', heard);
  await heard.next('message');
  await heard.next('acknowledged');
  custom(async () => null, () => {
    throw new Error('no');
  }).subscribe?.('leasehold:channel', heard);
  await heard.next('broken');
});

test('a_release_that_waits_for_a_moving_slot_resolves_when_it_is_done', async (t) => {
  const [time, redis] = [new VirtualTime(t), recognise(new MemoryServer())];
  let moving = false;
  const call = async (args: string[]): Promise<unknown> => {
    if (moving) throw new Error('TRYAGAIN Multiple keys request during rehashing of slot');
    const result = await redis.call(args);
    if ('reply' in result) return result.reply;
    throw new Error(refusal(result));
  };
  const locks = new LockManager({ call });
  const released = async (seconds: number): Promise<unknown> => {
    const lease = await time.result(locks.mutex('door').acquire({ ttl: '30s', renew: false }));
    moving = true;
    const release = lease.release().catch((error: { code: string }) => error.code);
    await time.pass(seconds * 1_000, 100);
    moving = false;
    return time.result(release);
  };
  assert.equal(await released(20), 'released');
  assert.equal(await released(60), 'unreachable', 'the lease was over');
});
