/** Keeps a hot lock from starving everything else in its process. */

/** How long local hand-overs may follow each other before sockets and timers get a turn, in microseconds. */
const LONGEST_RUN = 5_000;

/**
 * Runs what resolves a promise, at once in most cases.
 *
 * Hand-overs inside a process are microtasks, and microtasks go before everything else: tasks that do nothing but lock and
 * release would keep renewals' answers, and all other I/O, out for ever. So after a while one hand-over waits for a turn
 * of the event loop.
 */
export class Turns {
  /** When the present run began; none if the event loop has turned since. */
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
