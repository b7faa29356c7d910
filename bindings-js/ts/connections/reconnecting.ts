/**
 * The common part of the adapters for ioredis and node-redis, whose clients reconnect by themselves and emit events about it.
 *
 * A command waits here until its client is connected. When the connection breaks, all commands that have no reply fail at once,
 * and the library does not resend them.
 */

import { setTimerRef } from '../support/host.js';
import { HOST_TIME, soon } from '../support/timers.js';
import type { Answered, CallResult, DedicatedConnection, DedicatedOptions, Link, SubscriptionListener } from './link.js';
import { closed, isOfReplica, loginRefusal, messageOf, unavailable } from './results.js';
import { type OpenPubSub, Subscriber } from './subscriber.js';
import { type Emitter, ERRORS, watch } from './watch.js';

/** A command that was given to the library and has no reply yet. */
export interface PendingCommand<Command> {
  /** Its place in the list of all of them. */
  place: number;
  readonly command: Command;
  settle(result: CallResult): void;
}

/**
 * The most commands that are sent without any reply. It limits the memory that a hanging server costs while the other servers of
 * its quorum go on.
 */
const MOST_UNANSWERED = 20_000;

export abstract class ReconnectingLink<Command> implements Link {
  abstract readonly library: 'ioredis' | 'node-redis';
  /** Called when the server refuses a command because it is a replica. */
  onDemoted: (() => void) | undefined;
  readonly send?: (wire: string, answered: Answered) => void;
  together?(act: () => void): void;
  protected readonly pending = new PendingCommands<PendingCommand<Command>>();
  readonly #ready = new ReadyGate();
  readonly #subscriber: Subscriber;
  readonly #unwatch: () => void;
  #lastError: unknown;
  #reconnected: ((down: number) => void) | undefined;
  /** Whether the client was connected before. */
  #wasReady = false;
  #brokenAt: number | undefined;
  /** How many commands were sent since the last reply. */
  #unanswered = 0;

  /** `breakEvent` is the client's event for a broken connection. */
  protected constructor(client: Emitter, breakEvent: string, openPubSub: OpenPubSub) {
    this.#subscriber = new Subscriber(openPubSub);
    this.#unwatch = watch(client, {
      ready: () => {
        this.#lastError = undefined;
        this.#ready.open();
        this.#tellReconnect();
      },
      [breakEvent]: () => {
        // A client also emits this when its first attempt to connect fails.
        if (this.#wasReady) this.#brokenAt ??= HOST_TIME.now();
        this.#interrupt();
      },
      end: () => this.#ready.giveUp(),
      [ERRORS]: (error: unknown) => {
        this.#lastError = error;
        // Nothing becomes better by waiting longer.
        if (loginRefusal(error) !== undefined) this.#ready.giveUp();
      },
      // A cluster emits this for its nodes.
      'node error': (error) => (this.#lastError = error),
    });
  }

  protected abstract isReady(): boolean;
  abstract isClosed(): boolean;
  /** Connects a client that would wait for its first command. */
  protected connect(): void {}
  /** Why the client takes no commands even when it is connected. Undefined if it does. */
  protected abstract problem(): string | undefined;
  /** Why the connection broke, if no event says so. */
  protected breakError(): unknown {
    return undefined;
  }
  /** Gives a command to the library. */
  protected abstract dispatch(pending: PendingCommand<Command>): void;
  /** Makes a command harmless, in case the library still sends it. */
  protected abstract defuse(command: Command): void;
  abstract call(args: readonly string[]): Promise<CallResult>;
  abstract address(): string | undefined;
  abstract openDedicated(options: DedicatedOptions): Promise<DedicatedConnection>;

  subscribe(channel: string, listener: SubscriptionListener): void {
    this.#subscriber.subscribe(channel, listener);
  }

  unsubscribe(channel: string): void {
    this.#subscriber.unsubscribe(channel);
  }

  async close(): Promise<void> {
    this.#unwatch();
    this.#subscriber.close();
    this.#ready.giveUp();
    this.#interrupt();
  }

  ref(alive: boolean): void {
    this.#subscriber.ref(alive);
  }

  /** When the connection broke, if it is broken. */
  get brokenAt(): number | undefined {
    return this.#brokenAt;
  }

  onReconnect(listener: (down: number) => void, brokenAt?: number): void {
    this.#reconnected = listener;
    this.#brokenAt = brokenAt;
    this.#wasReady = this.isReady();
  }

  lastError(): unknown {
    return this.isReady() ? undefined : this.#lastError;
  }

  protected run(makeCommand: () => Command): Promise<CallResult> {
    return new Promise((resolve) => this.start(makeCommand, resolve));
  }

  /** The same without a promise. */
  protected start(makeCommand: () => Command, answered: Answered): void {
    if (this.isReady()) this.#send(makeCommand, answered);
    else void this.#sendOnceReady(makeCommand, answered);
  }

  protected notConnected(): CallResult {
    if (this.isClosed()) return this.#closed();
    return loginRefusal(this.#lastError) ?? unavailable(`the ${this.library} client is not connected`, this.#lastError);
  }

  async #sendOnceReady(makeCommand: () => Command, answered: Answered): Promise<void> {
    if (this.isClosed()) return soon(() => answered(this.#closed()));
    this.connect();
    if (await this.#ready.wait()) this.#send(makeCommand, answered);
    else answered(this.notConnected());
  }

  #tellReconnect(): void {
    const brokenAt = this.#brokenAt;
    this.#brokenAt = undefined;
    this.#wasReady = true;
    if (brokenAt !== undefined) this.#reconnected?.(HOST_TIME.now() - brokenAt);
  }

  #closed(): CallResult {
    return closed(`the ${this.library} client was closed`);
  }

  #send(makeCommand: () => Command, answered: Answered): void {
    const problem = this.problem();
    if (problem !== undefined) return soon(() => answered({ failure: { kind: 'unsupported', text: `the client is ${problem}` } }));
    if (this.#unanswered >= MOST_UNANSWERED) return soon(() => answered(unavailable(`the server has not answered the last ${MOST_UNANSWERED} commands`)));
    let command: Command;
    try {
      command = makeCommand();
    } catch (error) {
      // A client that was patched may throw. Nothing was sent.
      return soon(() => answered(unavailable(messageOf(error), error)));
    }
    this.#unanswered++;
    const pending: PendingCommand<Command> = {
      place: -1,
      command,
      settle: (result) => {
        this.#unanswered = 0;
        // It may have been interrupted before.
        if (!this.pending.delete(pending)) return;
        if ('failure' in result && result.failure.kind === 'refused' && isOfReplica(result.failure.text)) this.onDemoted?.();
        answered(result);
      },
    };
    this.pending.add(pending);
    this.dispatch(pending);
  }

  /** Fails all pending commands after the connection broke. Otherwise the library might send them much later. */
  #interrupt(): void {
    this.#lastError = this.breakError() ?? this.#lastError;
    const cause = this.#lastError;
    const text = cause === undefined ? 'before the answer came' : messageOf(cause);
    for (const { command, settle } of this.pending.all()) {
      this.defuse(command);
      settle({ failure: { kind: 'interrupted', text }, cause });
    }
  }
}

/** A server's address for messages. */
export function addressOf(host: unknown, port: unknown): string | undefined {
  if (typeof host !== 'string' || (typeof port !== 'number' && typeof port !== 'string')) return undefined;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * The commands that were sent and have no reply yet.
 *
 * This is an array instead of a `Set`. When a set grows, its old table keeps deleted entries alive until a full garbage
 * collection. With thousands of short-lived entries a second, that costs as much as the commands themselves.
 */
export class PendingCommands<Item extends { place: number }> {
  readonly #list: Item[] = [];

  add(item: Item): void {
    item.place = this.#list.push(item) - 1;
  }

  has(item: Item): boolean {
    return this.#list[item.place] === item;
  }

  /** Removes an item. Returns false if it was removed before. */
  delete(item: Item): boolean {
    if (!this.has(item)) return false;
    const last = this.#list.pop();
    if (last !== undefined && last !== item) {
      this.#list[item.place] = last;
      last.place = item.place;
    }
    item.place = -1;
    return true;
  }

  all(): Item[] {
    return [...this.#list];
  }
}

/** How long a command waits for a client that is connecting. Shorter than the default response timeout, so that the engine can retry. */
const READY_TIMEOUT_MS = 1000;

/**
 * Where commands wait until their client is connected.
 *
 * They don't wait in the library's own queue. From there, a command may be sent minutes later, after the engine has given up the
 * command's token and the server has forgotten that.
 */
export class ReadyGate {
  readonly #waiting = new Set<(isReady: boolean) => void>();

  /** Resolves to true once the client is connected, and to false if that takes too long or can't happen any more. */
  wait(): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (isReady: boolean): void => {
        HOST_TIME.clearTimeout(timer);
        this.#waiting.delete(end);
        resolve(isReady);
      };
      const timer = HOST_TIME.setTimeout(() => end(false), READY_TIMEOUT_MS);
      // A pending operation keeps the process alive by itself.
      setTimerRef(timer, 'unref');
      this.#waiting.add(end);
    });
  }

  /** The client is connected. */
  open(): void {
    for (const end of [...this.#waiting]) end(true);
  }

  /** The client can't be connected any more. */
  giveUp(): void {
    for (const end of [...this.#waiting]) end(false);
  }
}
