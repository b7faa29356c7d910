/**
 * Memory that both threads see: when this thread last heard from the server, and what the worker's renewals have confirmed.
 *
 * All accesses are atomic, so both threads see them in one order. A slot has a version, which is odd while the worker writes.
 */

/** What the server has confirmed. */
export interface Confirmed {
  /** The number of the entry whose renewal it was. */
  readonly id: number;
  /** When the renewal was sent, or earlier, in milliseconds of the main thread's clock. */
  readonly sent: number;
  /** How long the lease lasted from then on, in milliseconds. */
  readonly left: number;
}

/** How many slots a board has. */
export const SLOTS = 256;

const CHANGES = 0;
const HEARD = 1;
const HEAD = 2;
// The fields of a slot.
const [VERSION, ID, SENT_HIGH, SENT_LOW, LEFT] = [0, 1, 2, 3, 4];
const FIELDS = 5;

/** Times are stored in microseconds, in two parts. */
const PART = 2 ** 30;
/** When the main thread heard from the server is stored in milliseconds, of which only these bits. */
const BITS = 2 ** 31 - 1;
/** The worker may have died while it wrote. Otherwise this takes less than a microsecond. */
const MOST_TRIES = 10_000;

export class Board {
  readonly buffer: SharedArrayBuffer;
  readonly #values: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4 * (HEAD + SLOTS * FIELDS))) {
    this.buffer = buffer;
    this.#values = new Int32Array(buffer);
  }

  /** Counts the confirmed renewals. */
  get changes(): number {
    return Atomics.load(this.#values, CHANGES);
  }

  /** The main thread has heard from the server. */
  hear(now: number): void {
    Atomics.store(this.#values, HEARD, Math.floor(now) & BITS);
  }

  /** For how long the main thread has heard nothing, in milliseconds. */
  silence(now: number): number {
    const silence = (Math.floor(now) - Atomics.load(this.#values, HEARD)) & BITS;
    // The worker's idea of the main thread's clock may be a bit late. 2^31 milliseconds are 24 days.
    return silence > BITS / 2 ? 0 : silence;
  }

  /** The worker: writes what the server has confirmed. */
  confirm(slot: number, { id, sent, left }: Confirmed): void {
    const at = HEAD + slot * FIELDS;
    const micros = Math.max(0, Math.floor(sent * 1_000));
    Atomics.add(this.#values, at + VERSION, 1);
    Atomics.store(this.#values, at + ID, id);
    Atomics.store(this.#values, at + SENT_HIGH, Math.floor(micros / PART));
    Atomics.store(this.#values, at + SENT_LOW, micros % PART);
    Atomics.store(this.#values, at + LEFT, left);
    Atomics.add(this.#values, at + VERSION, 1);
    Atomics.add(this.#values, CHANGES, 1);
  }

  /** The main thread: reads a slot. Undefined if nothing whole is there. */
  read(slot: number): Confirmed | undefined {
    const at = HEAD + slot * FIELDS;
    const get = (field: number): number => Atomics.load(this.#values, at + field);
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const version = get(VERSION);
      const [id, high, low, left] = [get(ID), get(SENT_HIGH), get(SENT_LOW), get(LEFT)];
      if (version % 2 === 0 && get(VERSION) === version) return { id, sent: (high * PART + low) / 1_000, left: left >>> 0 };
    }
    return undefined;
  }
}
