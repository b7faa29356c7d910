/** The commands that wait for their answers, so that a caller can wait for those that were sent before. */

import { ignore } from '../support/ignore.js';
import { HOST_TIME, type Timer, type Timers } from '../support/timers.js';

/**
 * Commands that are awaited together: those that calls led to since the wave began, and those to which the answers of commands of this
 * wave led.
 */
interface Wave {
  open: number;
  /** Called when no command is open any more. */
  ended?: () => void;
}

export class InFlight {
  #wave: Wave = { open: 0 };
  /** The wave of the command whose answer is being handled. */
  #answering: Wave | undefined;
  /** Resolves when the earlier waves have ended. */
  #earlier: Promise<unknown> = Promise.resolve();
  /** How many commands are open, of all waves. */
  #open = 0;

  /** Whether no command waits for its answer. */
  get isEmpty(): boolean {
    return this.#open === 0;
  }

  /** A command is sent. */
  sent(): Wave {
    const wave = this.#answering ?? this.#wave;
    wave.open++;
    this.#open++;
    return wave;
  }

  /** A command has been answered, or has failed. `handle` may send more commands. */
  answered(wave: Wave, handle: () => void): void {
    const outer = this.#answering;
    this.#answering = wave;
    this.#open--;
    try {
      handle();
    } finally {
      this.#answering = outer;
      if (--wave.open === 0) wave.ended?.();
    }
  }

  /** Resolves when all waves until now have ended, or after `timeout` ms. */
  async settled(timeout: number, timers: Timers = HOST_TIME): Promise<void> {
    const wave = this.#wave;
    if (wave.open > 0) {
      this.#wave = { open: 0 };
      this.#earlier = Promise.all([this.#earlier, new Promise<void>((resolve) => (wave.ended = resolve))]);
    }
    const earlier = this.#earlier;
    let timer: Timer | undefined;
    const timedOut = new Promise<true>((resolve) => (timer = timers.setTimeout(() => resolve(true), timeout)));
    // An answer that never comes is not awaited again.
    if (await Promise.race([earlier.then(ignore), timedOut])) this.#earlier = Promise.resolve();
    timers.clearTimeout(timer);
  }
}
