/** Keeps the subscriptions of a client, over one connection that is opened on demand. */

import { ignore } from '../support/ignore.js';
import { soon } from '../support/timers.js';
import type { Failed, Failure, SubscriptionListener } from './link.js';
import { unavailable } from './results.js';

/** A connection for subscriptions. Failures are values here, too. */
export interface PubSubConnection {
  /** Resolves once the server has acknowledged the subscription. */
  subscribe(channel: string): Promise<Failed | undefined>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Sends a PING. Resolves once the server has replied, and rejects if it doesn't. */
  ping?(): Promise<unknown>;
  close(): void;
  ref(alive: boolean): void;
}

/** Receives the events of such a connection. It is never called before the connection was returned. */
export interface PubSubListener {
  message(channel: string, payload: string): void;
  /** The connection has ended, or could not be made. */
  ended(failed: Failed): void;
}

/** Opens a connection for subscriptions. It does not retry by itself. */
export type OpenPubSub = (listener: PubSubListener) => PubSubConnection;

/**
 * The subscriptions of a client: its own channel, and the channels of the reentrant locks that it waits for. One connection
 * carries them all. It is opened for the first one and stays until it breaks or the client is closed.
 *
 *     none --subscribe--> pending --acknowledged--> on --connection broken--> none
 *                            \-------refused------> none
 */
export class Subscriber {
  /**
   * How many connections ended at SUBSCRIBE. After the first one, a subscription begins with a PING, and only a connection that
   * replied to it counts: a proxy that replies and ends the connection again doesn't know SUBSCRIBE.
   */
  #ended = 0;
  readonly #open: OpenPubSub;
  readonly #subscriptions = new Map<string, Subscription>();
  #connection: SharedConnection | undefined;
  #alive = false;

  constructor(open: OpenPubSub) {
    this.#open = open;
  }

  subscribe(channel: string, listener: SubscriptionListener): void {
    const current = this.#subscriptions.get(channel);
    if (current !== undefined && current.connection === this.#connection) {
      if (current.acknowledged) {
        current.listener = listener;
        soon(() => this.#subscriptions.get(channel) === current && listener.acknowledged());
        return;
      }
      // The earlier attempt got no reply, so the connection is of no use to the other channels either.
      this.#subscriptions.delete(channel);
      this.#break(current.connection, unavailable('the subscription was not acknowledged'));
    }
    try {
      const subscription: Subscription = { connection: this.#connect(), listener, acknowledged: false, answered: false };
      this.#subscriptions.set(channel, subscription);
      void this.#begin(channel, subscription);
    } catch (cause) {
      this.#subscriptions.delete(channel);
      soon(() => listener.broken({ kind: 'unsupported', text: `this client can't open a second connection: ${String(cause)}` }, cause));
    }
  }

  unsubscribe(channel: string): void {
    const ended = this.#subscriptions.get(channel);
    this.#subscriptions.delete(channel);
    if (ended?.connection === this.#connection) void ended?.connection.inOrder(channel, (pubSub) => pubSub.unsubscribe(channel).catch(ignore));
  }

  /** Ends all subscriptions. */
  close(): void {
    this.#subscriptions.clear();
    this.#connection?.pubSub.close();
    this.#connection = undefined;
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    this.#connection?.pubSub.ref(alive);
  }

  #connect(): SharedConnection {
    if (this.#connection !== undefined) return this.#connection;
    const connection: SharedConnection = new SharedConnection(
      this.#open({
        message: (channel, payload) => {
          const subscription = this.#subscriptions.get(channel);
          if (subscription?.connection === connection) subscription.listener.message(payload);
        },
        ended: (failed) => this.#break(connection, failed),
      }),
    );
    connection.pubSub.ref(this.#alive);
    this.#connection = connection;
    return connection;
  }

  async #begin(channel: string, subscription: Subscription): Promise<void> {
    const { connection } = subscription;
    const isCurrent = (): boolean => this.#subscriptions.get(channel) === subscription;
    const failed = await connection.inOrder(channel, async (pubSub) => {
      if (this.#ended > 0 && isCurrent()) await pubSub.ping?.().then(() => (subscription.answered = true), ignore);
      return isCurrent() ? pubSub.subscribe(channel) : undefined;
    });
    if (!isCurrent()) return;
    if (failed === undefined) {
      this.#ended = 0;
      subscription.acknowledged = true;
      subscription.listener.acknowledged();
    } else if (failed.failure.kind === 'refused') {
      this.#subscriptions.delete(channel);
      subscription.listener.broken(failed.failure, failed.cause);
    } else {
      this.#break(connection, failed);
    }
  }

  /** Gives up a connection and notifies the listeners of all its channels. */
  #break(connection: SharedConnection, { failure, cause }: Failed): void {
    if (connection !== this.#connection) return;
    this.#connection = undefined;
    connection.pubSub.close();
    soon(() => {
      const open = [...this.#subscriptions.values()].filter((of) => of.connection === connection && !of.acknowledged);
      // One connection counts once, and only if the server had answered. The first failure only makes later attempts begin with a PING.
      if (open.some(({ answered }) => answered) || (open.length > 0 && this.#ended === 0)) this.#ended += 1;
      for (const [channel, subscription] of [...this.#subscriptions]) {
        if (subscription.connection !== connection || this.#subscriptions.get(channel) !== subscription) continue;
        this.#subscriptions.delete(channel);
        if (subscription.answered && this.#ended > MOST_ENDED) subscription.listener.broken(REFUSES, cause);
        else subscription.listener.broken(failure, cause);
      }
    });
  }
}

interface Subscription {
  readonly connection: SharedConnection;
  listener: SubscriptionListener;
  acknowledged: boolean;
  /** Whether the server replied to the PING before SUBSCRIBE. */
  answered: boolean;
}

/** After so many connections that ended at SUBSCRIBE, the next one decides. */
const MOST_ENDED = 2;
/** A refusal, which is final. */
const REFUSES: Failure = { kind: 'refused', text: 'ERR the server closes the connection at SUBSCRIBE' };

/** A connection, and its requests that have no reply yet. */
class SharedConnection {
  readonly pubSub: PubSubConnection;
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(pubSub: PubSubConnection) {
    this.pubSub = pubSub;
  }

  /** Runs the requests of one channel one after the other, because the libraries mix up concurrent ones. */
  async inOrder<T>(channel: string, act: (pubSub: PubSubConnection) => Promise<T>): Promise<T> {
    const request = (this.#last.get(channel) ?? Promise.resolve()).then(() => act(this.pubSub));
    this.#last.set(channel, request);
    try {
      return await request;
    } finally {
      if (this.#last.get(channel) === request) this.#last.delete(channel);
    }
  }
}
