/**
 * What the libraries have in common whose clients reconnect by themselves, and tell of it.
 *
 * A command waits here until its client is connected, ends as soon as the connection breaks, and is not sent again by the library.
 */

import { closed, textOf, unavailable } from './answer.js';
import { Flights } from './flights.js';
import { Hold } from './hold.js';
import type { CallResult, Link, SubscriptionListener } from './link.js';
import { type OpenChannels, Subscriber } from './subscriber.js';
import { type Emitter, ERRORS, watch } from './watch.js';

/** A command that is out. */
export interface Flight<Command> {
  place: number;
  readonly command: Command;
  settle(result: CallResult): void;
}

/** So many commands are sent without an answer to any of them: a server that hangs for hours, while others of its quorum go on, costs no more memory. */
const MOST_UNANSWERED = 20_000;

export abstract class ReconnectingLink<Command> implements Link {
  abstract readonly library: 'ioredis' | 'node-redis';
  protected readonly inFlight = new Flights<Flight<Command>>();
  readonly #hold = new Hold();
  readonly #subscriber: Subscriber;
  readonly #unwatch: () => void;
  #lastError: unknown;
  /** Sent since the last answer. */
  #unanswered = 0;

  /** `breaks` is the event that tells of a connection that broke. */
  protected constructor(client: Emitter, breaks: string, openChannels: OpenChannels) {
    this.#subscriber = new Subscriber(openChannels);
    this.#unwatch = watch(client, {
      ready: () => {
        this.#lastError = undefined;
        this.#hold.end(true);
      },
      [breaks]: () => this.#interrupt(),
      end: () => this.#hold.end(false),
      [ERRORS]: (error: unknown) => (this.#lastError = error),
      // A cluster's, of one of its nodes.
      'node error': (error) => (this.#lastError = error),
    });
  }

  protected abstract isReady(): boolean;
  protected abstract isClosed(): boolean;
  /** Has a client connect that waits for its first command. */
  protected connect(): void {}
  /** Why the client takes no commands, whatever its connection. */
  protected abstract problem(): string | undefined;
  /** Why its connection broke, where no event tells. */
  protected breakError(): unknown {
    return undefined;
  }
  /** Hands a command to the library. */
  protected abstract dispatch(flight: Flight<Command>): void;
  /** Whoever still sends this command sends a harmless one. */
  protected abstract defuse(command: Command): void;
  abstract call(args: readonly string[]): Promise<CallResult>;
  abstract address(): string | undefined;

  subscribe(channel: string, listener: SubscriptionListener): void {
    this.#subscriber.subscribe(channel, listener);
  }

  unsubscribe(channel: string): void {
    this.#subscriber.unsubscribe(channel);
  }

  async close(): Promise<void> {
    this.#unwatch();
    this.#subscriber.close();
    this.#hold.end(false);
    this.#interrupt();
  }

  ref(alive: boolean): void {
    this.#subscriber.ref(alive);
  }

  lastError(): unknown {
    return this.isReady() ? undefined : this.#lastError;
  }

  protected run(make: () => Command): Promise<CallResult> {
    return this.isReady() ? this.#send(make) : this.#sendOnceConnected(make);
  }

  protected notConnected(): CallResult {
    return this.isClosed() ? this.#closed() : unavailable(`the ${this.library} client is not connected`, this.#lastError);
  }

  async #sendOnceConnected(make: () => Command): Promise<CallResult> {
    if (this.isClosed()) return this.#closed();
    this.connect();
    return (await this.#hold.wait()) ? this.#send(make) : this.notConnected();
  }

  #closed(): CallResult {
    return closed(`the ${this.library} client was closed`);
  }

  #send(make: () => Command): Promise<CallResult> {
    const problem = this.problem();
    if (problem !== undefined) return Promise.resolve({ failure: { kind: 'unsupported', text: `the client is ${problem}` } });
    if (this.#unanswered >= MOST_UNANSWERED) return Promise.resolve(unavailable(`the server has not answered the last ${MOST_UNANSWERED} commands`));
    this.#unanswered++;
    return new Promise((resolve) => {
      const flight: Flight<Command> = {
        place: -1,
        command: make(),
        settle: (result) => {
          this.#unanswered = 0;
          if (this.inFlight.delete(flight)) resolve(result);
        },
      };
      this.inFlight.add(flight);
      this.dispatch(flight);
    });
  }

  /** The connection broke. The library would send again, or for the first time, what was out, however late. */
  #interrupt(): void {
    this.#lastError = this.breakError() ?? this.#lastError;
    const cause = this.#lastError;
    const text = cause === undefined ? 'before the answer came' : textOf(cause);
    for (const { command, settle } of this.inFlight.all()) {
      this.defuse(command);
      settle({ failure: { kind: 'interrupted', text }, cause });
    }
  }
}

/** A server as it is written in messages. */
export function addressOf(host: unknown, port: unknown): string | undefined {
  if (typeof host !== 'string' || (typeof port !== 'number' && typeof port !== 'string')) return undefined;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
