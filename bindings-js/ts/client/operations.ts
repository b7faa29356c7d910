/** The operations that users wait for, and how their promises settle. */

import type { LockSpec, Mode, Outcome } from '../engine/index.js';
import { IdMap } from '../support/id-map.js';
import { ignore } from '../support/ignore.js';
import { afterPendingIo } from '../support/timers.js';
import type { LeaseState } from './lease-state.js';

/** Something that a user asked for and that has not ended. */
export interface Operation {
  /** The name of the lock that it is about. */
  readonly name: string | undefined;
  /** Set for an acquire. Other operations get no lease. */
  readonly acquire?: PendingAcquire;
  done(outcome: Outcome): void;
  /** Takes a function, so that the error is made where its stack leads to the caller. */
  failed(makeError: () => Error): void;
}

export interface PendingAcquire {
  readonly lock: LockSpec;
  readonly ttl: number;
  /** What the caller calls the lease. */
  readonly label: string | undefined;
  readonly attempt: Attempt;
  granted(lease: LeaseState): void;
  readonly stopListening: (() => void) | undefined;
}

/** What events say about an acquire. */
export interface Attempt {
  /** Its number. */
  readonly id: number;
  readonly lock: LockSpec;
  /** When the engine got it, in microseconds. */
  began: number | undefined;
}

/** The open operations by their number in the engine, oldest first. */
export class Operations {
  readonly #open = new IdMap<Operation>();
  readonly #keepProcessAlive: (alive: boolean) => void;
  #last = 0;

  /** An open operation keeps the process alive. A lease or an idle connection does not. */
  constructor(keepProcessAlive: (alive: boolean) => void) {
    this.#keepProcessAlive = keepProcessAlive;
  }

  begin(operation: Operation): number {
    const op = ++this.#last;
    this.#open.set(op, operation);
    if (this.#open.size === 1) this.#keepProcessAlive(true);
    return op;
  }

  /** Whether one operation is open. */
  get isOne(): boolean {
    return this.#open.size === 1;
  }

  has(op: number): boolean {
    return this.#open.get(op) !== undefined;
  }

  /** Removes an operation that has ended, and returns it. */
  end(op: number): Operation | undefined {
    const operation = this.#open.get(op);
    if (operation === undefined) return undefined;
    this.#open.delete(op);
    if (this.#open.size === 0) this.#keepProcessAlive(false);
    return operation;
  }

  endAll(): Operation[] {
    const operations = this.#open.values();
    this.#open.clear();
    if (operations.length > 0) this.#keepProcessAlive(false);
    return operations;
  }

  /** The numbers of the open acquires. */
  *waiting(): Iterable<number> {
    for (const [op, { acquire }] of this.#open.entries()) if (acquire !== undefined) yield op;
  }

  /** The open acquires, oldest first. */
  *acquires(): Iterable<PendingAcquire> {
    for (const { acquire } of this.#open.values()) if (acquire !== undefined) yield acquire;
  }

  /** The locks that open acquires wait for. */
  waits(): { name: string; mode: Mode }[] {
    const waits: { name: string; mode: Mode }[] = [];
    for (const { acquire } of this.#open.values()) {
      if (acquire !== undefined) waits.push({ name: acquire.lock.name, mode: acquire.lock.mode });
    }
    return waits;
  }
}

export function fail(operation: Operation, makeError: () => Error): void {
  operation.acquire?.stopListening?.();
  operation.failed(makeError);
}

/**
 * Returns a promise that rejects with `instead(makeError())`, with a stack that leads to the line that awaits it. If `isNull` is
 * true of the error, it resolves to `null`.
 *
 * An error gets its stack where it is made. While the server's reply is handled, that stack has no line of the caller. So the
 * error is made in a microtask that the caller's promise waits for. There, V8 adds the lines that `await` it. An operation that
 * succeeds pays nothing.
 */
export function rejection<Null = never>(makeError: () => Error, instead: (error: Error) => unknown = (error) => error, isNull?: (error: Error) => boolean): Promise<Null> {
  const reject = (): Null => {
    const error = makeError();
    dropOurFrames(error, reject);
    const given = instead(error);
    if (isNull?.(error) === true) return null as Null;
    throw given;
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

/** For how long hand-overs may follow each other before I/O and timers run, in microseconds. */
const LONGEST_RUN = 5_000;

/**
 * Delivers hand-overs inside this client: at once in most cases.
 *
 * Such hand-overs are microtasks, and microtasks run before everything else. Tasks that only lock and release would block all
 * I/O forever, including the replies to renewals. So after a while, a hand-over waits until the event loop has turned.
 */
export class HandoffScheduler {
  /** When the current run of hand-overs began. Undefined if the event loop has turned since. */
  #began: number | undefined;
  #waiting: (() => void)[] = [];

  run(now: number, deliver: () => void): void {
    if (this.#began === undefined) {
      this.#began = now;
      afterPendingIo(this.turned);
    }
    if (now - this.#began < LONGEST_RUN) deliver();
    else this.#waiting.push(deliver);
  }

  /** The event loop has turned. */
  readonly turned = (): void => {
    this.#began = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const deliver of waiting) deliver();
  };
}
