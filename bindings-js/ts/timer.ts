/** One timer, for the engine's next wake-up. */

/** Timers stand still while the machine sleeps, and leases don't: look at the clock at least this often. */
const LONGEST_SLEEP = 1_000_000;

/**
 * Wakes at the latest when it was last told to. A moment put off leaves it as it is: to wake early is legal, and cheaper
 * than a new timer for every input.
 */
export class Timer {
  readonly #wake: () => void;
  #handle: ReturnType<typeof setTimeout> | undefined;
  #at = Infinity;
  #alive = false;

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** Wakes at this moment at the latest; both are microseconds. A negative one is never. */
  set(now: number, at: number): void {
    if (at < 0 || at >= this.#at) return;
    const soonest = Math.min(at, now + LONGEST_SLEEP);
    if (soonest >= this.#at) return;
    this.stop();
    this.#at = soonest;
    this.#handle = setTimeout(this.#fire, Math.max(0, Math.ceil((soonest - now) / 1_000)));
    if (!this.#alive) setAlive(this.#handle, false);
  }

  /** Whether the process stays alive for it. */
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

/** Whether a timer keeps the process alive. Browsers' and workers' timers are numbers, and keep nothing alive; Deno's are too, and do. */
export function setAlive(handle: ReturnType<typeof setTimeout>, alive: boolean): void {
  if (typeof handle === 'object') {
    // Some hosts' have neither.
    if (alive) handle.ref?.();
    else handle.unref?.();
    return;
  }
  const { Deno } = globalThis as { Deno?: { refTimer?(id: number): void; unrefTimer?(id: number): void } };
  if (alive) Deno?.refTimer?.(handle);
  else Deno?.unrefTimer?.(handle);
}
