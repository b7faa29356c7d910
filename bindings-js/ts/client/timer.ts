/** One timer, for the engine's next wake-up. */

/** Timers stop while the machine sleeps, but leases go on. So look at the clock at least this often, in microseconds. */
const LONGEST_SLEEP = 1_000_000;

/**
 * Wakes at the given time or earlier. A later time doesn't move the timer: waking early is allowed, and it is cheaper than a
 * new timer for every input.
 */
export class Timer {
  readonly #wake: () => void;
  #handle: ReturnType<typeof setTimeout> | undefined;
  #at = Infinity;
  #alive = false;

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** Wakes at `at` at the latest. Both times are in microseconds; a negative `at` means never. */
  set(now: number, at: number): void {
    if (at < 0 || at >= this.#at) return;
    const soonest = Math.min(at, now + LONGEST_SLEEP);
    if (soonest >= this.#at) return;
    this.stop();
    this.#at = soonest;
    this.#handle = setTimeout(this.#fire, Math.max(0, Math.ceil((soonest - now) / 1_000)));
    if (!this.#alive) setAlive(this.#handle, false);
  }

  /** Sets whether the timer keeps the process alive. */
  ref(alive: boolean): void {
    if (alive === this.#alive) return;
    this.#alive = alive;
    if (this.#handle !== undefined) setAlive(this.#handle, alive);
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

/**
 * Sets whether a timer keeps the process alive. In browsers and workers a timer is a number and keeps nothing alive. In Deno it
 * is a number too, but keeps the process alive.
 */
export function setAlive(handle: ReturnType<typeof setTimeout>, alive: boolean): void {
  if (typeof handle === 'object') {
    // On some hosts, timers have neither method.
    if (alive) handle.ref?.();
    else handle.unref?.();
    return;
  }
  const { Deno } = globalThis as { Deno?: { refTimer?(id: number): void; unrefTimer?(id: number): void } };
  if (alive) Deno?.refTimer?.(handle);
  else Deno?.unrefTimer?.(handle);
}
