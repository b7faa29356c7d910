/** The engine and the connection together: what the one puts out the other carries, and the clock tells both. */

import { makeEngine } from './client.js';
import { Clock } from './clock.js';
import type { Command } from './command.js';
import type { CallResult, Failure, Link, SubscriptionListener } from './connections/link.js';
import type { Config, Engine, Outcome } from './engine.js';
import type { LossReason } from './errors.js';
import type { ConnectionState } from './outcome.js';
import { Timer } from './timer.js';
import { VersionCheck } from './version.js';

/** Who hears what the engine has to tell. Nothing here may call the loop. */
export interface Listener {
  completed(op: number, outcome: Outcome): void;
  lost(lease: number, reason: LossReason): void;
  /** The engine is broken, which no input should do: the loop is to be ended. */
  broken(cause: unknown): void;
}

export class Loop {
  /** When the present turn began. */
  now = 0;
  /** What a command brought that the present turn takes in: nothing if it comes of time, a message or a user. */
  result: CallResult | undefined;
  readonly #link: Link;
  readonly #engine: Engine;
  readonly #listener: Listener;
  readonly #responseTimeout: number;
  readonly #version: VersionCheck;
  readonly #clock = new Clock();
  readonly #timer = new Timer(() => this.turn((engine, now) => engine.passed(now)));
  /** What the present turn led to, and what runs foreign code. */
  #after: (() => void)[] = [];
  /** What the library said last, since the last answer. */
  #lastFailure: { failure: Failure; cause: unknown } | undefined;
  #ended = false;

  /** The options are checked before a connection is looked at, so that a refused manager leaves nothing behind. */
  constructor(id: Uint8Array, config: Config, connect: () => Link, listener: Listener) {
    this.#listener = listener;
    this.#responseTimeout = config.responseTimeout;
    this.#engine = makeEngine(id, config, {
      send: (call, command) => this.#after.push(() => this.#send(call, command)),
      subscribe: (channel) => this.#after.push(() => this.#subscribe(channel)),
      unsubscribe: (channel) => this.#after.push(() => this.#link.unsubscribe?.(channel)),
      completed: (op, outcome) => this.#listener.completed(op, outcome),
      lost: (lease, reason) => this.#listener.lost(lease, reason),
    });
    try {
      this.#link = connect();
    } catch (error) {
      this.#engine.free();
      throw error;
    }
    this.#version = new VersionCheck(this.#link, config.responseTimeout);
  }

  get library(): string {
    return this.#link.library;
  }

  /** What an error may tell of the connection as it is now. */
  get connection(): ConnectionState {
    return { lastFailure: this.#lastFailure, lastError: this.#link.lastError?.(), address: this.#link.address?.() };
  }

  /** One input, and then what it led to. */
  turn(input: (engine: Engine, now: number) => void, result?: CallResult): void {
    if (this.#ended) return;
    const now = this.#clock.now();
    this.now = now;
    this.result = result;
    try {
      input(this.#engine, now);
    } catch (cause) {
      this.#listener.broken(cause);
    }
    if (this.#after.length > 0) {
      const after = this.#after;
      this.#after = [];
      for (const act of after) act();
    }
    if (!this.#ended) this.#timer.set(now, this.#engine.wake);
  }

  /** Does this once the present turn is through: for what runs foreign code. */
  afterwards(act: () => void): void {
    this.#after.push(act);
  }

  /** How long a lease is still valid, in microseconds; not positive once it is over. */
  remaining(lease: number): number {
    return this.#ended ? 0 : this.#engine.validUntil(lease) - this.#clock.now();
  }

  keepAlive(alive: boolean): void {
    this.#timer.ref(alive);
    this.#link.ref?.(alive);
  }

  /** No input is taken any more. A broken engine is left as it is. */
  end(broken: boolean): void {
    this.#ended = true;
    this.#timer.stop();
    if (!broken) this.#engine.free();
  }

  /** A connection of the user's making may take for ever to close. */
  async closeLink(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, this.#responseTimeout)));
    const closed = Promise.resolve().then(() => this.#link.close());
    await Promise.race([closed.catch(ignore), late]);
    clearTimeout(timer);
  }

  #send(call: number, command: Command): void {
    const answer = this.#version.passed ? this.#carry(command) : this.#version.guard(() => this.#carry(command));
    answer.then(
      (result) => this.#answered(call, result),
      (cause: unknown) => this.#answered(call, { failure: { kind: 'interrupted', text: String(cause) }, cause }),
    );
  }

  #carry(command: Command): Promise<CallResult> {
    return this.#link.send === undefined ? this.#link.call(command.words) : this.#link.send(command.wire);
  }

  #answered(call: number, result: CallResult): void {
    if ('reply' in result) {
      this.#lastFailure = undefined;
      return this.turn((engine, now) => engine.reply(now, call, result.reply), result);
    }
    const { failure, cause } = result;
    this.#lastFailure = { failure, cause };
    this.turn((engine, now) => engine.failed(now, call, failure), result);
  }

  #subscribe(channel: string): void {
    const listener = this.#listen(channel);
    if (this.#link.subscribe !== undefined) return this.#link.subscribe(channel, listener);
    // Told later: the commands of this turn go first.
    queueMicrotask(() => listener.broken({ kind: 'unsupported', text: 'this connection can not subscribe' }));
  }

  #listen(channel: string): SubscriptionListener {
    return {
      acknowledged: () => this.turn((engine, now) => engine.subscribed(now, channel)),
      message: (payload) => this.turn((engine, now) => engine.message(now, channel, payload)),
      broken: (failure) => this.turn((engine, now) => engine.unsubscribed(now, channel, failure)),
    };
  }
}

function ignore(): void {}
