import type { Failure, SubscriptionListener } from './link.js';

/** A connection that was opened for one channel. */
export interface Channel {
  close(): void;
  ref(alive: boolean): void;
}

/** Opens a connection, subscribes, and tells of it later, never before it has returned. Makes no second attempt by itself. */
export type OpenChannel = (channel: string, listener: SubscriptionListener) => Channel;

/**
 * The subscriptions of a manager, each over a connection of its own: its own channel, and those of reentrant locks while somebody waits.
 *
 *     none --subscribe--> opening --acknowledged--> on --broken--> none
 *                           \-------broken--------> none
 */
export class Subscriber {
  readonly #open: OpenChannel;
  readonly #attempts = new Map<string, Attempt>();
  #alive = false;

  constructor(open: OpenChannel) {
    this.#open = open;
  }

  subscribe(channel: string, listener: SubscriptionListener): void {
    const current = this.#attempts.get(channel);
    if (current?.acknowledged === true) {
      current.listener = listener;
      queueMicrotask(() => this.#attempts.get(channel) === current && listener.acknowledged());
      return;
    }
    this.unsubscribe(channel);
    const attempt: Attempt = { channel, listener, acknowledged: false, connection: undefined };
    this.#attempts.set(channel, attempt);
    try {
      attempt.connection = this.#open(channel, this.#listen(attempt));
      attempt.connection.ref(this.#alive);
    } catch (cause) {
      const failure: Failure = { kind: 'unsupported', text: `this client can't open a second connection: ${String(cause)}` };
      queueMicrotask(() => this.#end(attempt, failure, cause));
    }
  }

  unsubscribe(channel: string): void {
    const ended = this.#attempts.get(channel);
    this.#attempts.delete(channel);
    ended?.connection?.close();
  }

  /** Ends all of them. */
  close(): void {
    for (const channel of [...this.#attempts.keys()]) this.unsubscribe(channel);
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    for (const { connection } of this.#attempts.values()) connection?.ref(alive);
  }

  /** What an attempt tells counts only while it is the current one. */
  #listen(attempt: Attempt): SubscriptionListener {
    return {
      acknowledged: () => {
        if (!this.#isCurrent(attempt)) return;
        attempt.acknowledged = true;
        attempt.listener.acknowledged();
      },
      message: (payload) => {
        if (this.#isCurrent(attempt)) attempt.listener.message(payload);
      },
      broken: (failure, cause) => this.#end(attempt, failure, cause),
    };
  }

  #end(attempt: Attempt, failure: Failure, cause: unknown): void {
    if (!this.#isCurrent(attempt)) return;
    this.unsubscribe(attempt.channel);
    attempt.listener.broken(failure, cause);
  }

  #isCurrent(attempt: Attempt): boolean {
    return this.#attempts.get(attempt.channel) === attempt;
  }
}

interface Attempt {
  readonly channel: string;
  listener: SubscriptionListener;
  acknowledged: boolean;
  connection: Channel | undefined;
}
