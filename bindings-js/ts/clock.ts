/** The clock that the engine is driven by. */

/** A pair of the host's clocks, in milliseconds. Tests bring their own. */
export interface HostClocks {
  /** Never steps, but may stand still while the machine sleeps. */
  monotonic(): number;
  /** Goes on while the machine sleeps, but may be set. */
  wall(): number;
}

// Taken once: as globals they are looked up by code.
const { performance, Date: Wall } = globalThis;
const host: HostClocks = { monotonic: () => performance.now(), wall: () => Wall.now() };

/** Whole milliseconds may be counted off by one at either end. */
const RESOLUTION = 1;
/** A wall clock that was set back is believed again after this. */
const ANCHOR = 500;

/**
 * Counts microseconds, and never goes back.
 *
 * Leases end on the server while this machine sleeps, so time is the larger progress of the two clocks since they were
 * last anchored. A wall clock that is set forward may so cost a lease, but never safety; one that is set back changes nothing.
 */
export class Clock {
  readonly #host: HostClocks;
  #monotonic: number;
  #wall: number;
  #passed = 0;
  #last = 0;

  constructor(clocks: HostClocks = host) {
    this.#host = clocks;
    this.#monotonic = clocks.monotonic();
    this.#wall = clocks.wall();
  }

  /** Microseconds since the clock was made. */
  now(): number {
    const monotonic = this.#host.monotonic();
    const wall = this.#host.wall();
    const awake = monotonic - this.#monotonic;
    const progress = Math.max(awake, wall - this.#wall - RESOLUTION);
    const now = Math.trunc((this.#passed + progress) * 1_000);
    if (progress >= ANCHOR) {
      this.#passed += progress;
      this.#monotonic = monotonic;
      this.#wall = wall;
    }
    if (now > this.#last) this.#last = now;
    return this.#last;
  }
}
