import { unavailable } from './results.js';
import type { Failed, SubscriptionListener } from './link.js';

/** A connection for subscriptions. Failures are values here, too. */
export interface PubSubConnection {
  /** Resolves once the server has acknowledged the subscription. */
  subscribe(channel: string): Promise<Failed | undefined>;
  unsubscribe(channel: string): Promise<unknown>;
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
 * The subscriptions of a manager: its own channel, and the channels of the reentrant locks that it waits for. One connection
 * carries them all. It is opened for the first one and stays until it breaks or the manager is closed.
 *
 *     none --subscribe--> pending --acknowledged--> on --connection broken--> none
 *                            \-------refused------> none
 */
export class Subscriber {
  readonly #open: OpenPubSub;
  readonly #attempts = new Map<string, Attempt>();
  #line: Line | undefined;
  #alive = false;

  constructor(open: OpenPubSub) {
    this.#open = open;
  }

  subscribe(channel: string, listener: SubscriptionListener): void {
    const current = this.#attempts.get(channel);
    if (current !== undefined && current.line === this.#line) {
      if (current.acknowledged) {
        current.listener = listener;
        queueMicrotask(() => this.#attempts.get(channel) === current && listener.acknowledged());
        return;
      }
      // The earlier attempt got no answer, so the connection is of no use to the other channels either.
      this.#attempts.delete(channel);
      this.#break(current.line, unavailable('the subscription was not acknowledged'));
    }
    try {
      const attempt: Attempt = { line: this.#connected(), listener, acknowledged: false };
      this.#attempts.set(channel, attempt);
      void this.#begin(channel, attempt);
    } catch (cause) {
      this.#attempts.delete(channel);
      queueMicrotask(() => listener.broken({ kind: 'unsupported', text: `this client can't open a second connection: ${String(cause)}` }, cause));
    }
  }

  unsubscribe(channel: string): void {
    const ended = this.#attempts.get(channel);
    this.#attempts.delete(channel);
    if (ended?.line === this.#line) void ended?.line.inTurn(channel, () => ended.line.channels.unsubscribe(channel).catch(ignore));
  }

  /** Ends all subscriptions. */
  close(): void {
    this.#attempts.clear();
    this.#line?.channels.close();
    this.#line = undefined;
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    this.#line?.channels.ref(alive);
  }

  #connected(): Line {
    if (this.#line !== undefined) return this.#line;
    const line: Line = new Line(
      this.#open({
        message: (channel, payload) => {
          const attempt = this.#attempts.get(channel);
          if (attempt?.line === line) attempt.listener.message(payload);
        },
        ended: (failed) => this.#break(line, failed),
      }),
    );
    line.channels.ref(this.#alive);
    this.#line = line;
    return line;
  }

  async #begin(channel: string, attempt: Attempt): Promise<void> {
    const { line } = attempt;
    const isCurrent = (): boolean => this.#attempts.get(channel) === attempt;
    const failed = await line.inTurn(channel, async () => (isCurrent() ? line.channels.subscribe(channel) : undefined));
    if (!isCurrent()) return;
    if (failed === undefined) {
      attempt.acknowledged = true;
      attempt.listener.acknowledged();
    } else if (failed.failure.kind === 'refused') {
      this.#attempts.delete(channel);
      attempt.listener.broken(failed.failure, failed.cause);
    } else {
      this.#break(line, failed);
    }
  }

  /** Gives up a connection and notifies the listeners of all its channels. */
  #break(line: Line, { failure, cause }: Failed): void {
    if (line !== this.#line) return;
    this.#line = undefined;
    line.channels.close();
    queueMicrotask(() => {
      for (const [channel, attempt] of [...this.#attempts]) {
        if (attempt.line !== line || this.#attempts.get(channel) !== attempt) continue;
        this.#attempts.delete(channel);
        attempt.listener.broken(failure, cause);
      }
    });
  }
}

interface Attempt {
  readonly line: Line;
  listener: SubscriptionListener;
  acknowledged: boolean;
}

/** A connection and its pending requests. */
class Line {
  readonly channels: PubSubConnection;
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(channels: PubSubConnection) {
    this.channels = channels;
  }

  /** Runs the requests of one channel one after the other, because the libraries mix up concurrent ones. */
  async inTurn<T>(channel: string, act: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(channel) ?? Promise.resolve()).then(act);
    this.#turns.set(channel, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(channel) === turn) this.#turns.delete(channel);
    }
  }
}

function ignore(): void {}
