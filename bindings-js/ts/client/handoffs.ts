/** Keeps a hot lock from starving the rest of its process. */

/** How long local hand-overs may follow each other before I/O and timers get a turn, in microseconds. */
const LONGEST_RUN = 5_000;

/**
 * Runs the function that resolves a promise; at once in most cases.
 *
 * Hand-overs inside a process are microtasks, and microtasks go before everything else. Tasks that only lock and release would
 * block all I/O forever, including the answers to renewals. So after a while a hand-over waits for the next turn of the event
 * loop.
 */
export class Turns {
  /** When the current run of hand-overs began; undefined if the event loop has turned since. */
  #began: number | undefined;
  #waiting: (() => void)[] = [];

  run(now: number, resolve: () => void): void {
    if (this.#began === undefined) {
      this.#began = now;
      afterThisTurn(this.#turned);
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

const afterThisTurn: (run: () => void) => void =
  typeof setImmediate === 'function' ? (run) => void setImmediate(run) : (run) => void setTimeout(run, 0);
