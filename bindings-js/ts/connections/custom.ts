/** A connection of the user's own making. */

import { textOf, toFailed, toReply, unavailable } from './answer.js';
import type { CallResult, Failed, Link, SubscriptionListener } from './link.js';
import { type Channels, type ChannelsListener, Subscriber } from './subscriber.js';

/**
 * Any way to run commands, e.g. over HTTP or a library that is not known here. The commands are `EVALSHA` and `EVAL`, and
 * `INFO server` beside the first of them; a server that refuses to tell its version is taken as it is.
 *
 * ```ts
 * const locks = new LockManager({ call: (args) => myClient.send(args) });
 * ```
 */
export interface CustomConnection {
  /**
   * Runs one command once, as it is: no retry, no key prefix. Resolves to what the server answered: an integer, null, a
   * string or bytes, or a flat list of those.
   *
   * Rejects with an error whose message is the server's own text, code word first (`NOSCRIPT No matching script`), if the
   * server refused it. Any other error means that nobody knows whether it ran, unless the error has `sent: false`, which
   * promises that it never left.
   */
  call(args: string[]): Promise<unknown>;

  /**
   * Subscribes to a channel; resolves, once the server has acknowledged it, to what ends it. `onEnd` tells that it ended
   * by itself: then it is asked for again. Without `subscribe` waiters ask instead.
   */
  subscribe?(channel: string, onMessage: (payload: string) => void, onEnd: (error?: unknown) => void): Promise<Unsubscribe> | Unsubscribe;
}

export type Unsubscribe = () => unknown;

export class CustomLink implements Link {
  readonly library = 'custom';
  readonly #connection: CustomConnection;
  /** One for each channel: what they share is the user's affair. */
  readonly #subscribers = new Map<string, Subscriber>();
  readonly subscribe?: (channel: string, listener: SubscriptionListener) => void;

  constructor(connection: CustomConnection) {
    this.#connection = connection;
    if (typeof connection.subscribe !== 'function') return;
    this.subscribe = (channel, listener) => {
      const subscriber = this.#subscribers.get(channel) ?? new Subscriber((told) => openChannel(connection, told));
      this.#subscribers.set(channel, subscriber);
      subscriber.subscribe(channel, listener);
    };
  }

  async call(args: readonly string[]): Promise<CallResult> {
    try {
      return { reply: toReply(await this.#connection.call([...args])) };
    } catch (error) {
      return failedBy(error);
    }
  }

  unsubscribe(channel: string): void {
    this.#subscribers.get(channel)?.close();
    this.#subscribers.delete(channel);
  }

  async close(): Promise<void> {
    for (const channel of [...this.#subscribers.keys()]) this.unsubscribe(channel);
  }
}

function failedBy(error: unknown): Failed {
  const neverSent = typeof error === 'object' && error !== null && 'sent' in error && error.sent === false;
  return neverSent ? unavailable(textOf(error), error) : toFailed(error);
}

function openChannel(connection: CustomConnection, listener: ChannelsListener): Channels {
  let closed = false;
  let subscribed: Promise<Unsubscribe | undefined> | undefined;
  const failed = (error: unknown): Failed => (error === undefined ? unavailable('the subscription ended') : toFailed(error));
  return {
    subscribe: (channel) => {
      const onMessage = (payload: string): void => listener.message(channel, payload);
      const onEnd = (error?: unknown): void => queueMicrotask(() => listener.ended(failed(error)));
      // Told later in any case, whatever the user's function does at once.
      subscribed = Promise.resolve().then(() => (closed ? undefined : connection.subscribe?.(channel, onMessage, onEnd)));
      return subscribed.then(() => undefined, failed);
    },
    unsubscribe: async () => {},
    close: () => {
      closed = true;
      subscribed?.then((unsubscribe) => unsubscribe?.()).catch(ignore);
    },
    ref: ignore,
  };
}

function ignore(): void {}
