/** The timer that wakes the engine. */

import { setTimerRef } from '../support/host.js';
import { HOST, type Timer, type Timers } from '../support/timers.js';

const SECOND = 1_000_000;

/**
 * Wakes at the given time or earlier. A later time doesn't move the timer: waking early is allowed, and it is cheaper than a
 * new timer for every input.
 */
export class WakeTimer {
  /** Timers stop while the machine sleeps, but leases go on. So look at the clock at least this often, in microseconds. */
  longestSleep = SECOND;
  timers: Timers = HOST;
  readonly #wake: () => void;
  #handle: Timer | undefined;
  #at = Infinity;
  #alive = false;

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** Wakes at `at` at the latest. Both times are in microseconds; at infinity means never. */
  set(now: number, at: number): void {
    if (at >= this.#at) return;
    const soonest = Math.min(at, now + this.longestSleep);
    if (soonest >= this.#at) return;
    this.stop();
    this.#at = soonest;
    const ms = Math.max(0, Math.ceil((soonest - now) / 1_000));
    this.#handle = this.timers.setTimeout(this.#fire, ms);
    if (!this.#alive) setTimerRef(this.#handle, 'unref');
  }

  /** Sets whether the timer keeps the process alive. */
  ref(alive: boolean): void {
    if (alive === this.#alive) return;
    this.#alive = alive;
    if (this.#handle !== undefined) setTimerRef(this.#handle, alive ? 'ref' : 'unref');
  }

  stop(): void {
    if (this.#handle !== undefined) this.timers.clearTimeout(this.#handle);
    this.#handle = undefined;
    this.#at = Infinity;
  }

  readonly #fire = (): void => {
    this.#handle = undefined;
    this.#at = Infinity;
    this.#wake();
  };
}
