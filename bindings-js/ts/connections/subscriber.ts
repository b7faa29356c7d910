import type { Failure, SubscriptionListener } from './link.js';

/** A connection that was opened for one channel. */
export interface Channel {
  close(): void;
  ref(alive: boolean): void;
}

/** Opens a connection, subscribes, and tells of it later, never before it has returned. Makes no second attempt by itself. */
export type OpenChannel = (channel: string, listener: SubscriptionListener) => Channel;

/**
 * The one subscription of a manager.
 *
 *     none --subscribe--> opening --acknowledged--> on --broken--> none
 *                           \-------broken--------> none
 */
export class Subscriber {
  readonly #open: OpenChannel;
  #current: Attempt | undefined;
  #alive = false;

  constructor(open: OpenChannel) {
    this.#open = open;
  }

  subscribe(channel: string, listener: SubscriptionListener): void {
    if (this.#current?.acknowledged === true) {
      const current = this.#current;
      current.listener = listener;
      queueMicrotask(() => this.#current === current && listener.acknowledged());
      return;
    }
    this.unsubscribe();
    const attempt: Attempt = { listener, acknowledged: false, connection: undefined };
    this.#current = attempt;
    try {
      attempt.connection = this.#open(channel, this.#listen(attempt));
      attempt.connection.ref(this.#alive);
    } catch (cause) {
      const failure: Failure = { kind: 'unsupported', text: `this client can't open a second connection: ${String(cause)}` };
      queueMicrotask(() => this.#end(attempt, failure, cause));
    }
  }

  unsubscribe(): void {
    const ended = this.#current;
    this.#current = undefined;
    ended?.connection?.close();
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    this.#current?.connection?.ref(alive);
  }

  /** What an attempt tells counts only while it is the current one. */
  #listen(attempt: Attempt): SubscriptionListener {
    return {
      acknowledged: () => {
        if (this.#current !== attempt) return;
        attempt.acknowledged = true;
        attempt.listener.acknowledged();
      },
      message: (payload) => {
        if (this.#current === attempt) attempt.listener.message(payload);
      },
      broken: (failure, cause) => this.#end(attempt, failure, cause),
    };
  }

  #end(attempt: Attempt, failure: Failure, cause: unknown): void {
    if (this.#current !== attempt) return;
    this.unsubscribe();
    attempt.listener.broken(failure, cause);
  }
}

interface Attempt {
  listener: SubscriptionListener;
  acknowledged: boolean;
  connection: Channel | undefined;
}
