/** The users' calls that have not ended. */

import type { Mode, Outcome } from '../engine/engine.js';
import type { Lease } from '../api/lease.js';

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
  granted(lease: Lease): void;
  readonly stopListening: (() => void) | undefined;
}

/** The open calls by their number in the engine, oldest first. */
export class Calls {
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
