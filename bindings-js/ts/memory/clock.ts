/** The time of servers in memory and of their managers. */

import { readDuration, type Duration } from '../api/validate.js';
import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { setTimerRef } from '../support/host.js';

/** A greater difference between the host's two clocks means that one of them was set, in milliseconds. */
const NOTICEABLE = 2;
/** The longest time of a server: 200 years, in milliseconds. Then its fences still have at most 53 bits. */
const LONGEST = 200 * 365 * 86_400_000;

/**
 * The time of a {@link MemoryServer} and of its managers. It is the host's time, also when a test has replaced the host's timers:
 * leases age with the fake timers of Jest, Vitest and `node:test`. {@link Clock.advance} moves it ahead of that.
 *
 * @example
 * ```ts
 * const server = new MemoryServer();
 * const lease = await new LockManager(server).mutex('report').acquire();
 * server.clock.advance('30s'); // nobody could renew the lease in that time
 * console.log(await lease.lost); // 'expired'
 * ```
 */
export class Clock {
  /** The first reading of the host's clocks that are there now, and the time then. */
  #host = readHost();
  #base = 0;
  /** How far the wall clock has gone ahead of the monotonic clock since then, and how much of that counts as time that passed. */
  #gap = 0;
  #missed = 0;
  #elapsed = 0;
  #ahead = 0;
  readonly #listeners = new Set<() => void>();
  readonly #followsDate: boolean;

  /** @internal */
  constructor(followsDate = true) {
    this.#followsDate = followsDate;
  }

  /**
   * Moves the time forward at once. Leases expire, and renewals are due, as if the process had stood still for so long. The host's
   * timers don't move: with fake timers, advance these instead.
   *
   * @throws `invalid-option` for a time that is negative or no duration, and after 200 years in all.
   */
  advance(time: Duration): void {
    if (typeof time === 'number' && time < 0) throw new InvalidOptionError('time', `is ${formatValue(time)}: time can't go back; give how far it moves forward`);
    const ahead = this.#ahead + readDuration('time', time);
    if (this.#read() + ahead > LONGEST) throw new InvalidOptionError('time', `is ${formatValue(time)}: a server in memory lives for 200 years; make a new one`);
    this.#ahead = ahead;
    for (const listener of [...this.#listeners]) listener();
  }

  /** The time since the clock was made, in milliseconds. */
  get elapsed(): number {
    return Math.min(LONGEST, this.#read() + this.#ahead);
  }

  /** @internal */
  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** @internal Runs `act` once so many milliseconds have passed. */
  after(ms: number, act: () => void): void {
    const due = this.elapsed + ms;
    const run = (): void => {
      clearTimeout(timer);
      stop();
      act();
    };
    const timer = setTimeout(run, ms);
    setTimerRef(timer, 'unref');
    const stop = this.onAdvance(() => this.elapsed >= due && run());
  }

  /**
   * The time that has passed by the host's clocks. `node:test` fakes only the wall clock, and a program may set only that. So this
   * follows whichever advanced more, as the engine does, unless it ignores the date.
   */
  #read(): number {
    const host = readHost();
    if (host.Wall !== this.#host.Wall || host.monotonicNow !== this.#host.monotonicNow) {
      // A test has installed or removed fake clocks. The difference between the old and the new ones is no time that passed.
      this.#host = host;
      this.#base = this.#elapsed;
      this.#gap = this.#missed = 0;
      return this.#elapsed;
    }
    const monotonic = host.monotonic - this.#host.monotonic;
    const gap = this.#followsDate ? host.wall - this.#host.wall - monotonic : 0;
    if (Math.abs(gap - this.#gap) > NOTICEABLE) {
      this.#missed += Math.max(0, gap - this.#gap);
      this.#gap = gap;
    }
    // A clock that is set back changes nothing. Whole microseconds, because a timer that fires exactly in time must not be early.
    this.#elapsed = Math.max(this.#elapsed, Math.round((this.#base + monotonic + this.#missed) * 1_000) / 1_000);
    return this.#elapsed;
  }
}

/** Reads the host's clocks. They are looked up each time, because fake timers replace them. */
function readHost(): { Wall: DateConstructor; monotonicNow: () => number; monotonic: number; wall: number } {
  const { Date: Wall, performance } = globalThis;
  return { Wall, monotonicNow: performance.now, monotonic: performance.now(), wall: Wall.now() };
}
