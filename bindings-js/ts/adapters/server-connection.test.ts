import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { fakeHost } from '../testing/virtual-time.js';
import { OnDemandConnection, type Transport, type TransportEvents } from './server-connection.js';

/** A socket that never opens and never answers, unless a test says so. */
class Silent implements Transport {
  opened: Promise<unknown> = Promise.resolve();
  isClosed = false;
  readonly events: TransportEvents;
  #fail: (error: Error) => void = () => {};

  constructor(events: TransportEvents) {
    this.events = events;
  }

  send(): Promise<unknown> {
    return new Promise((_, reject) => (this.#fail = reject));
  }

  subscribe(): Promise<unknown> {
    return this.send();
  }

  unsubscribe(): Promise<unknown> {
    return Promise.resolve();
  }

  refuse(error: Error): void {
    this.#fail(error);
  }

  close(): void {
    this.isClosed = true;
    this.#fail(new Error('closed by us'));
  }
}

/** A connection, and the sockets that it has opened. */
function silent(t: TestContext, opened: () => Promise<unknown>): { connection: OnDemandConnection; sockets: Silent[] } {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  fakeHost(t);
  const sockets: Silent[] = [];
  const connection = new OnDemandConnection('redis://host:1', (events) => {
    const socket = new Silent(events);
    socket.opened = opened();
    sockets.push(socket);
    return socket;
  });
  return { connection, sockets };
}

const failureOf = (promise: Promise<unknown>): Promise<Error & { sent?: boolean }> => promise.then(() => assert.fail('no error'), (error) => error);
const turns = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a_command_waits_a_second_for_its_socket_and_the_socket_ten', async (t) => {
  const { connection, sockets } = silent(t, () => new Promise(() => {}));
  const first = failureOf(connection.call(['PING']));
  t.mock.timers.tick(1_000);
  const error = await first;
  assert.equal(error.sent, false);
  assert.equal(error.message, "can't connect to redis://host:1: not connected within 1 s");
  const second = failureOf(connection.call(['PING']));
  t.mock.timers.tick(8_999);
  assert.equal((await second).sent, false);
  assert.equal(sockets.length, 1);
  assert.equal(sockets[0]?.isClosed, false);
  t.mock.timers.tick(1);
  assert.equal(sockets[0]?.isClosed, true);
  void failureOf(connection.call(['PING']));
  assert.equal(sockets.length, 2);
});

test('a_socket_that_leaves_a_command_unanswered_is_replaced', async (t) => {
  const { connection, sockets } = silent(t, () => Promise.resolve());
  const out = failureOf(connection.call(['PING']));
  await turns();
  t.mock.timers.tick(10_000);
  const error = await out;
  assert.notEqual(error.sent, false);
  assert.equal(sockets[0]?.isClosed, true);
  void failureOf(connection.call(['PING']));
  assert.equal(sockets.length, 2);
});

test('a_subscription_without_an_acknowledgement_fails_and_the_next_one_has_a_socket_of_its_own', async (t) => {
  const { connection, sockets } = silent(t, () => Promise.resolve());
  const out = failureOf(connection.subscribe('channel', () => {}, () => {}));
  await turns();
  t.mock.timers.tick(10_000);
  await out;
  void failureOf(connection.subscribe('channel', () => {}, () => {}));
  assert.equal(sockets.length, 2);
});

test('a_subscription_that_the_server_refuses_leaves_no_socket_behind', async (t) => {
  const { connection, sockets } = silent(t, () => Promise.resolve());
  const refused = failureOf(connection.subscribe('channel', () => {}, () => {}));
  await turns();
  sockets[0]?.refuse(new Error('NOPERM no channel'));
  assert.equal((await refused).message, 'NOPERM no channel');
  assert.equal(sockets[0]?.isClosed, true);
});

test('a_socket_that_can_not_be_opened_is_told_as_never_sent', async (t) => {
  const { connection } = silent(t, () => Promise.reject(new Error('refused')));
  const error = await failureOf(connection.call(['PING']));
  assert.equal(error.sent, false);
  assert.equal(error.message, "can't connect to redis://host:1: refused");
  const throwing = new OnDemandConnection('redis://host:1', () => {
    throw new Error('outside of a request');
  });
  assert.equal((await failureOf(throwing.call(['PING']))).sent, false);
});

test('an_event_of_an_old_socket_changes_nothing', async (t) => {
  const { connection, sockets } = silent(t, () => Promise.resolve());
  const ends: unknown[] = [];
  void failureOf(connection.subscribe('channel', () => {}, (error) => ends.push(error)));
  sockets[0]?.events.ended(new Error('first'));
  void failureOf(connection.subscribe('channel', () => {}, (error) => ends.push(error)));
  sockets[0]?.events.ended(new Error('again'));
  assert.deepEqual(ends.map(String), ['Error: first']);
  assert.equal(sockets[1]?.isClosed, false);
});
