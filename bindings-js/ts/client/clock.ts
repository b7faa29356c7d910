/** The clock that drives the engine, and the timer that wakes it. */

import { setTimerRef } from '../support/host.js';

/** The host's two clocks, in milliseconds. Tests bring their own. */
export interface HostClocks {
  /** Never steps, but may stop while the machine sleeps. */
  monotonic(): number;
  /** Goes on while the machine sleeps, but may be set to another time. */
  wall(): number;
}

// Read once, because a lookup of these globals runs code.
const { performance, Date: Wall } = globalThis;
const host: HostClocks = { monotonic: () => performance.now(), wall: () => Wall.now() };

/** The wall clock counts whole milliseconds, so a difference of two readings can be too large by this much. */
const RESOLUTION = 1;
/** Both clocks are anchored again after this progress, so a wall clock that was set back counts again from then on. */
const ANCHOR = 500;

/**
 * Counts microseconds and never goes back.
 *
 * Leases end on the server while this machine sleeps. So time is the larger progress of the two clocks since they were last
 * anchored. A wall clock that is set forward can cost a lease, but never safety. One that is set back changes nothing.
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

/** Timers stop while the machine sleeps, but leases go on. So look at the clock at least this often, in microseconds. */
const LONGEST_SLEEP = 1_000_000;

/**
 * Wakes at the given time or earlier. A later time doesn't move the timer: waking early is allowed, and it is cheaper than a
 * new timer for every input.
 */
export class WakeTimer {
  readonly #wake: () => void;
  #handle: ReturnType<typeof setTimeout> | undefined;
  #at = Infinity;
  #alive = false;

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** Wakes at `at` at the latest. Both times are in microseconds; at infinity means never. */
  set(now: number, at: number): void {
    if (at >= this.#at) return;
    const soonest = Math.min(at, now + LONGEST_SLEEP);
    if (soonest >= this.#at) return;
    this.stop();
    this.#at = soonest;
    this.#handle = setTimeout(this.#fire, Math.max(0, Math.ceil((soonest - now) / 1_000)));
    if (!this.#alive) setTimerRef(this.#handle, 'unref');
  }

  /** Sets whether the timer keeps the process alive. */
  ref(alive: boolean): void {
    if (alive === this.#alive) return;
    this.#alive = alive;
    if (this.#handle !== undefined) setTimerRef(this.#handle, alive ? 'ref' : 'unref');
  }

  stop(): void {
    if (this.#handle !== undefined) clearTimeout(this.#handle);
    this.#handle = undefined;
    this.#at = Infinity;
  }

  readonly #fire = (): void => {
    this.#handle = undefined;
    this.#at = Infinity;
    this.#wake();
  };
}
