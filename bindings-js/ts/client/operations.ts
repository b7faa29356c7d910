/** The users' calls that have not ended, and how their promises settle. */

import type { Mode, Outcome } from '../engine/index.js';
import { afterPendingIo } from '../support/host.js';
import type { LeaseState } from './lease-state.js';

/** A user's call that has not ended. */
export interface Call {
  /** The lock that the call is about. */
  readonly name: string | undefined;
  /** Set if the call is an acquire. Other calls get no lease. */
  readonly acquire?: Acquire;
  done(outcome: Outcome): void;
  /** Takes a function, so that the error is made where its stack leads to the caller. */
  failed(make: () => Error): void;
}

export interface Acquire {
  readonly mode: Mode;
  /** All names, if the lock has several. */
  readonly names: readonly string[] | undefined;
  readonly ttl: number;
  granted(held: LeaseState): void;
  readonly stopListening: (() => void) | undefined;
}

/** The open calls by their number in the engine, oldest first. */
export class Operations {
  readonly #open = new Map<number, Call>();
  readonly #keepAlive: (alive: boolean) => void;
  #last = 0;

  /** An open call keeps the process alive. A lease or an idle connection does not. */
  constructor(keepAlive: (alive: boolean) => void) {
    this.#keepAlive = keepAlive;
  }

  begin(call: Call): number {
    const op = ++this.#last;
    this.#open.set(op, call);
    if (this.#open.size === 1) this.#keepAlive(true);
    return op;
  }

  has(op: number): boolean {
    return this.#open.has(op);
  }

  /** Removes a call that has ended, and returns it. */
  end(op: number): Call | undefined {
    const call = this.#open.get(op);
    if (call === undefined) return undefined;
    this.#open.delete(op);
    if (this.#open.size === 0) this.#keepAlive(false);
    return call;
  }

  endAll(): Call[] {
    const calls = [...this.#open.values()];
    this.#open.clear();
    if (calls.length > 0) this.#keepAlive(false);
    return calls;
  }

  /** The locks that open acquires wait for. */
  waits(): { name: string; mode: Mode }[] {
    const waits: { name: string; mode: Mode }[] = [];
    for (const { name, acquire } of this.#open.values()) {
      if (acquire !== undefined && name !== undefined) waits.push({ name, mode: acquire.mode });
    }
    return waits;
  }
}

export function fail(call: Call, make: () => Error): void {
  call.acquire?.stopListening?.();
  call.failed(make);
}

/**
 * Returns a promise that rejects in a moment with `instead(make())`.
 *
 * An error gets its stack where it is made. While the server's answer is handled, that stack has no line of the caller. So the
 * error is made in a microtask that the caller's promise waits for: there, V8 adds the lines that `await` it. A call that
 * succeeds pays nothing.
 */
export function rejection(make: () => Error, instead: (error: Error) => unknown = (error) => error): Promise<never> {
  const reject = (): never => {
    const error = make();
    dropOurFrames(error, reject);
    throw instead(error);
  };
  // A promise that is resolved with this one starts to wait for it one microtask later, so make the error after that.
  return Promise.resolve().then(ignore).then(reject);
}

/** Removes the lines of this package from the stack, if lines of a caller remain. */
function dropOurFrames(error: Error, ours: () => unknown): void {
  const { stack } = error;
  // V8 only.
  Error.captureStackTrace?.(error, ours);
  if (stack !== undefined && !/\n\s+at (?!.*node:internal)/.test(error.stack ?? '')) error.stack = stack;
}

function ignore(): void {}

/** How long local hand-overs may follow each other before I/O and timers get a turn, in microseconds. */
const LONGEST_RUN = 5_000;

/**
 * Runs the function that resolves a promise; at once in most cases.
 *
 * Hand-overs inside a process are microtasks, and microtasks go before everything else. Tasks that only lock and release would
 * block all I/O forever, including the answers to renewals. So after a while a hand-over waits for the next turn of the event
 * loop.
 */
export class HandoffScheduler {
  /** When the current run of hand-overs began; undefined if the event loop has turned since. */
  #began: number | undefined;
  #waiting: (() => void)[] = [];

  run(now: number, resolve: () => void): void {
    if (this.#began === undefined) {
      this.#began = now;
      afterPendingIo(this.#turned);
    }
    if (now - this.#began < LONGEST_RUN) resolve();
    else this.#waiting.push(resolve);
  }

  readonly #turned = (): void => {
    this.#began = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  };
}
