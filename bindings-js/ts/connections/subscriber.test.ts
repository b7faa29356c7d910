/** Subscriptions over a connection that a proxy closes at SUBSCRIBE. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ignore } from '../support/ignore.js';
import type { Failed, Failure } from './link.js';
import { type PubSubListener, Subscriber } from './subscriber.js';

const ENDED: Failed = { failure: { kind: 'unavailable', text: 'the connection ended' } };

/** Connections that end at SUBSCRIBE until `takes` says otherwise. A PING is answered if `answers`. */
function closing(answers: boolean, takes: () => boolean = () => false): { subscriber: Subscriber; pings: () => number } {
  let pings = 0;
  const open = (listener: PubSubListener) => ({
    subscribe: async (): Promise<Failed | undefined> => {
      if (takes()) return undefined;
      listener.ended(ENDED);
      return ENDED;
    },
    ping: async () => {
      pings += 1;
      if (!answers) throw new Error('no reply');
    },
    unsubscribe: async () => {},
    close: ignore,
    ref: ignore,
  });
  return { subscriber: new Subscriber(open), pings: () => pings };
}

/** The failure of one subscription, or undefined if the server has acknowledged it. */
function attempt(subscriber: Subscriber, channel = 'channel'): Promise<Failure | undefined> {
  return new Promise((resolve) => subscriber.subscribe(channel, { acknowledged: () => resolve(undefined), message: ignore, broken: resolve }));
}

test('a_proxy_that_answers_and_then_closes_at_subscribe_refuses_it_for_good', async () => {
  const { subscriber, pings } = closing(true);
  const kinds = [];
  for (let count = 0; count < 3; count += 1) kinds.push((await attempt(subscriber))?.kind);
  assert.deepEqual([kinds, pings()], [['unavailable', 'unavailable', 'refused'], 2]);
});

test('a_server_that_does_not_answer_either_may_come_back', async () => {
  const { subscriber } = closing(false);
  for (let count = 0; count < 10; count += 1) assert.equal((await attempt(subscriber))?.kind, 'unavailable');
});

test('an_acknowledged_subscription_begins_the_count_again', async () => {
  let count = 0;
  const { subscriber } = closing(true, () => (count += 1) === 3);
  const kinds = [];
  for (let attempts = 0; attempts < 3; attempts += 1) kinds.push((await attempt(subscriber))?.kind);
  subscriber.close();
  for (let attempts = 0; attempts < 2; attempts += 1) kinds.push((await attempt(subscriber))?.kind);
  assert.deepEqual(kinds, ['unavailable', 'unavailable', undefined, 'unavailable', 'unavailable']);
});

test('an_outage_and_slow_answers_refuse_nothing', async () => {
  // How each connection ends: the server is down, is slow, or answers and then goes away, as in a restart.
  for (const ends of [['down', 'down', 'down', 'down', 'restart'], ['slow', 'slow', 'slow', 'restart'], ['restart', 'down', 'down', 'restart']]) {
    let end = 'up';
    const open = (listener: PubSubListener) => ({
      subscribe: (): Promise<Failed | undefined> => {
        if (end === 'slow') return new Promise(() => {});
        if (end === 'up') return Promise.resolve(undefined);
        listener.ended(ENDED);
        return Promise.resolve(ENDED);
      },
      ping: () => (end === 'down' ? Promise.reject(new Error('no connection')) : end === 'slow' ? new Promise(() => {}) : Promise.resolve()),
      unsubscribe: async () => {},
      close: ignore,
      ref: ignore,
    });
    const subscriber = new Subscriber(open);
    // Several channels share each connection.
    const channels = ['one', 'two', 'three', 'four'];
    for (end of ends) {
      const failing = channels.map((channel) => attempt(subscriber, channel));
      await new Promise(setImmediate);
      // The engine tries again, which gives up a connection that is slow.
      if (end === 'slow') void attempt(subscriber, 'one');
      for (const failure of await Promise.all(failing.slice(1))) assert.equal(failure?.kind, 'unavailable', `${ends}: ${end}`);
      subscriber.close();
    }
    end = 'up';
    for (const channel of channels) assert.equal(await attempt(subscriber, channel), undefined);
  }
});

test('a_proxy_is_recognised_at_its_third_connection_also_with_several_channels', async () => {
  const { subscriber } = closing(true);
  const kinds = [];
  for (let count = 0; count < 3; count += 1) kinds.push((await Promise.all(['one', 'two', 'three'].map((channel) => attempt(subscriber, channel)))).map((failure) => failure?.kind));
  assert.deepEqual(kinds.map((all) => all.includes('refused')), [false, false, true]);
});
