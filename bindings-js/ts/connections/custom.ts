/** Connections that the user implements. */

import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { ignore } from '../support/ignore.js';
import { soon } from '../support/timers.js';
import { messageOf, toFailed, toReply, unavailable } from './results.js';
import type { CallResult, Failed, Link, SubscriptionListener } from './link.js';
import { type PubSubConnection, type PubSubListener, Subscriber } from './subscriber.js';

/**
 * Your own way to run commands, for example over HTTP or with another client library. The manager sends `EVALSHA` and `EVAL`.
 * Together with the first of them, it sends `INFO server`, and an `EVAL` that changes nothing (see `isCluster`). A server that
 * does not tell its version is used as it is. Valkey 9.0 and newer also gets `DELIFEQ`, and Redis 8.4 and newer `DELEX`. If your
 * function refuses these, the manager uses scripts in their place.
 *
 * It also sends `PING` if the first commands fail, `GET` where slots are enforced, and `SET`, `GET`, `DEL` and `PUBLISH` for the
 * option `label`. If your function refuses the latter, only labels are missing.
 *
 * @example
 * ```ts
 * const locks = new LockManager({ call: (args) => myClient.send(args) });
 * ```
 */
export interface CustomConnection {
  /**
   * Runs one command exactly once and unchanged: no retry, no key prefix. Resolve to the server's answer: an integer, `null`, a
   * string, a `Uint8Array`, or a flat list of these.
   *
   * If the server refuses the command, reject with an error whose message is the server's text, beginning with its code
   * (`NOSCRIPT No matching script`). Any other error means that the command may have run. If you know that it was never sent,
   * set `sent: false` on the error. If no command can ever run on this connection, set `code: 'unsupported'`: the call then fails
   * at once, and is not tried again.
   */
  call(args: string[]): Promise<unknown>;

  /**
   * Subscribes to a channel. Once the server has acknowledged the subscription, resolve to a function that ends it. Call
   * `onEnd` if the subscription ends by itself: the manager then subscribes again. Without `subscribe`, waiters poll, which is
   * slower.
   */
  subscribe?(channel: string, onMessage: (payload: string) => void, onEnd: (error?: unknown) => void): Promise<Unsubscribe> | Unsubscribe;

  /**
   * Whether the servers enforce the slots of a cluster, so that all keys of a call must be in one slot. Set it to `true` if you
   * send each command to the server that has its first key. Calls then reject with `invalid-option` if the server takes keys of
   * different slots in one call. With `false`, the manager doesn't ask. Without it, the manager asks the server: together with
   * its first command, it sends an `EVAL` that changes nothing.
   */
  readonly isCluster?: boolean | undefined;
}

/** Ends a subscription. */
export type Unsubscribe = () => unknown;

export class CustomLink implements Link {
  readonly library = 'custom';
  readonly isCluster: boolean;
  readonly mayEnforceSlots: boolean;
  readonly #connection: CustomConnection;
  /** One subscriber for each channel. The user's connection decides what they share. */
  readonly #subscribers = new Map<string, Subscriber>();
  readonly subscribe?: (channel: string, listener: SubscriptionListener) => void;

  constructor(connection: CustomConnection) {
    const { isCluster } = connection;
    if (isCluster !== undefined && typeof isCluster !== 'boolean') {
      throw new InvalidOptionError('connection', `has the \`isCluster\` ${formatValue(isCluster)}: give true or false`);
    }
    this.#connection = connection;
    this.isCluster = isCluster === true;
    this.mayEnforceSlots = isCluster === undefined;
    if (typeof connection.subscribe !== 'function') return;
    this.subscribe = (channel, listener) => {
      const subscriber = this.#subscribers.get(channel) ?? new Subscriber((events) => openPubSub(connection, events));
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
  if (typeof error !== 'object' || error === null) return toFailed(error);
  if ('code' in error && error.code === 'unsupported') return { failure: { kind: 'unsupported', text: messageOf(error) }, cause: error };
  return 'sent' in error && error.sent === false ? unavailable(messageOf(error), error) : toFailed(error);
}

function openPubSub(connection: CustomConnection, listener: PubSubListener): PubSubConnection {
  let closed = false;
  let subscribed: Promise<Unsubscribe | undefined> | undefined;
  const failed = (error: unknown): Failed => (error === undefined ? unavailable('the subscription ended') : toFailed(error));
  return {
    subscribe: (channel) => {
      const onMessage = (payload: unknown): void => listener.message(channel, textOf(payload));
      const onEnd = (error?: unknown): void => soon(() => listener.ended(failed(error)));
      // Always asynchronous, even if the user's function calls back at once.
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

/** Untyped connections may pass bytes, or anything. */
function textOf(payload: unknown): string {
  if (typeof payload === 'string') return payload;
  return payload instanceof Uint8Array ? new TextDecoder().decode(payload) : '';
}
