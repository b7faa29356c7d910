/** A lease that is released and extended by hand, and what the `Lock`s of node-redlock 4 and 5 have in common. */

import { isLeaseholdError, type Lease, UnsupportedError } from '../index.js';
import { setTimerRef } from '../support/host.js';
import { ignore } from '../support/ignore.js';
import { HOST_TIME, type Timer } from '../support/timers.js';
import { withoutMargins } from './managers.js';

/** How an attempt ended. A failure without a `problem` means that another client holds the lock, or that it is no longer held. */
export interface Ended {
  readonly isDone: boolean;
  readonly problem: unknown;
}

/** A lease that is released and extended by hand. */
export class Held {
  readonly #lease: Lease;
  readonly resources: readonly string[];
  /** When it was taken or last extended, and for how long, as `Date.now()` tells it. */
  #start: number;
  #duration: number;
  /** By which part of the duration clocks may drift apart. */
  #driftFactor: number;
  #end: Timer | undefined;
  /** How many extensions have begun. */
  #extensions = 0;
  #isReleased = false;

  constructor(lease: Lease, resources: readonly string[], duration: number, driftFactor: number) {
    this.#lease = lease;
    this.resources = resources;
    this.#start = Date.now();
    this.#duration = duration;
    this.#driftFactor = driftFactor;
  }

  /** The fence, as text. */
  get value(): string {
    return String(this.#lease.fence);
  }

  /** How long it is valid, in milliseconds. */
  get remaining(): number {
    return this.#lease.remaining;
  }

  /** When it ends, as `Date.now()` tells it: as node-redlock computes it, but not after the lease. */
  get expiration(): number {
    const drift = Math.round(this.#driftFactor * this.#duration) + 2;
    const { remaining } = this;
    // A lease that has ended did so before now.
    return Math.min(this.#start + this.#duration - drift, Date.now() + (remaining > 0 ? Math.floor(remaining) : -1));
  }

  onLost(listener: (reason: string) => void): void {
    void this.#lease.lost.then(listener);
  }

  /**
   * Gives the lease back, and resolves to what `end` returns. The engine sends its command again if that is safe. Rejects with an
   * error that another attempt can't fix, and with what `end` throws.
   */
  async release<T>(end: (ended: Ended) => T): Promise<T> {
    let isDone = false;
    let problem: unknown;
    try {
      isDone = (await this.#release()) === 'released';
      this.#isReleased = true;
    } catch (error) {
      problem = passOnHopeless(error);
    }
    return end({ isDone, problem });
  }

  /** Makes the lock end after `duration`. The rest is as in `release`. */
  async extend<T>(duration: number, driftFactor: number, end: (ended: Ended) => T): Promise<T> {
    const start = Date.now();
    let isDone = false;
    let problem: unknown;
    try {
      isDone = await this.#extend(duration);
      if (isDone) [this.#start, this.#duration, this.#driftFactor] = [start, duration, driftFactor];
    } catch (error) {
      problem = passOnHopeless(error);
    }
    return end({ isDone, problem });
  }

  /** Undefined if it was released before. */
  #release(): ReturnType<Lease['release']> | undefined {
    if (this.#end !== undefined) HOST_TIME.clearTimeout(this.#end);
    return this.#isReleased ? undefined : this.#lease.release();
  }

  /** Resolves to `false` if it was no longer held. */
  async #extend(duration: number): Promise<boolean> {
    if (this.#isReleased) return false;
    HOST_TIME.clearTimeout(this.#end);
    const extension = ++this.#extensions;
    const end = HOST_TIME.now() + duration;
    const isShorter = this.remaining > duration;
    if (isShorter && await this.#shorten(duration)) return true;
    await this.#lease.extend(withoutMargins(duration));
    // A later extension decides on its own.
    if (isShorter && extension === this.#extensions) {
      // The server keeps the lease for longer, so it is released in time.
      this.#end = HOST_TIME.setTimeout(() => void this.#release()?.then(() => (this.#isReleased = true), ignore), end - HOST_TIME.now());
      setTimerRef(this.#end, 'unref');
    }
    return true;
  }

  /** Makes the lock shorter on the server too. Resolves to `false` for several names and several clients. */
  async #shorten(duration: number): Promise<boolean> {
    try {
      await this.#lease.shorten(withoutMargins(duration));
      return true;
    } catch (error) {
      if (isLeaseholdError(error, 'unsupported')) return false;
      throw error;
    }
  }
}

/** Gives a lock its lease, and with it the fence and the expiration. */
export let setHeld: <L extends HeldLock>(lock: L, held: Held) => L;
/** The lease of a lock. Throws `unsupported` for a lock of the original, and for one that the program made. */
export let heldBy: (lock: HeldLock) => Held;

/** A lock that has a lease, unless the program made it. */
export abstract class HeldLock<Value extends string | null = string | null> {
  static {
    setHeld = (lock, held) => {
      lock.#held = held;
      lock.#expiration = undefined;
      return lock;
    };
    heldBy = (lock) => {
      const held = #held in lock ? lock.#held : undefined;
      if (held === undefined) throw new UnsupportedError('a `Lock` that this process did not acquire; release and extend it where it was acquired');
      return held;
    };
  }

  /** Not in a `WeakMap`, which costs the garbage collector more than the lock. */
  #held: Held | undefined;
  readonly #value: Value;
  /** Undefined if it was not read yet. To make it takes a call into the engine. */
  #expiration: number | undefined;

  constructor(value: Value, expiration: number) {
    this.#value = value;
    this.#expiration = expiration;
  }

  /** The lock's fencing token, as text: send it along with each write. The value on the server is another one. */
  get value(): Value | string {
    return this.#held?.value ?? this.#value;
  }

  /** When the lock ends unless it is extended, as `Date.now()` tells it. 0 once it was released. */
  get expiration(): number {
    return (this.#expiration ??= this.#held?.expiration ?? 0);
  }

  set expiration(expiration: number) {
    this.#expiration = expiration;
  }
}

/** The codes of errors that another attempt can't fix. */
const HOPELESS: readonly string[] = ['invalid-option', 'unsupported', 'closed'];

/** Throws an error that another attempt can't fix: a caller's mistake, or a broken engine. */
export function passOnHopeless(error: unknown): unknown {
  if (isLeaseholdError(error) && HOPELESS.includes(error.code)) throw error;
  return error;
}
