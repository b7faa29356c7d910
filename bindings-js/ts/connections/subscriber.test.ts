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
function attempt(subscriber: Subscriber): Promise<Failure | undefined> {
  return new Promise((resolve) => subscriber.subscribe('channel', { acknowledged: () => resolve(undefined), message: ignore, broken: resolve }));
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
