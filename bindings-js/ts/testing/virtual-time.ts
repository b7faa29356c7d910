/** Stops the host's clocks and timers for one test, so that only the test moves the time. For fakes and servers in memory. */

import type { TestContext } from 'node:test';

import { HOST } from '../support/timers.js';
import { until } from './expect.js';

// A test may replace the global function.
const turn = setImmediate;
/** After this many turns of the event loop, everything that is due has happened. */
const TURNS = 5;

export class VirtualTime {
  readonly #tick: (ms: number) => void;
  #now = 0;
  /** The time up to which timers have fired. */
  #ticked = 0;

  constructor(t: TestContext) {
    const began = Date.now();
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    t.mock.method(performance, 'now', () => this.#now);
    fakeHost(t, () => this.#now);
    t.mock.method(Date, 'now', () => began + this.#now);
    this.#tick = (ms) => t.mock.timers.tick(ms);
  }

  /** The milliseconds that have passed. */
  get now(): number {
    return this.#now;
  }

  /** Lets so many milliseconds pass without firing timers, as a blocked event loop does. */
  takes(ms: number): void {
    this.#now += ms;
  }

  /** Lets so many milliseconds pass, in small steps. In each step, everything that is due happens. */
  async pass(ms: number, step = 10): Promise<void> {
    for (const end = this.#now + ms; this.#now < end;) await this.#step(Math.min(step, end - this.#now));
  }

  /** Lets time pass until the promise is settled. Returns how long that took. Fails after an hour. */
  async until(promise: Promise<unknown>, step = 10): Promise<number> {
    const began = this.#now;
    let isSettled = false;
    const settled = (): void => void (isSettled = true);
    promise.then(settled, settled);
    await turns();
    while (!isSettled) {
      if (this.#now - began > 3_600_000) throw new Error('it takes more than an hour');
      await this.#step(step);
    }
    return this.#now - began;
  }

  /** Lets time pass until the promise is settled, and returns its result. */
  async result<T>(promise: Promise<T>): Promise<T> {
    await this.until(promise);
    return promise;
  }

  /**
   * Awaits a promise that depends on a real server, and returns its result. Meanwhile the time goes on about as fast as the real one.
   * So the timers of connections and calls fire, if a slow machine needs them.
   */
  async beside<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settled = (): void => void (isSettled = true);
    promise.then(settled, settled);
    await until(async () => (await this.#step(10), isSettled));
    return promise;
  }

  async #step(ms: number): Promise<void> {
    this.#now += ms;
    const late = this.#now - this.#ticked;
    this.#ticked = this.#now;
    this.#tick(late);
    await turns();
  }
}

/** Replaces the host's timers with the test's, and the host's clock with `now`. */
export function fakeHost(t: TestContext, now = HOST.now): void {
  // The uptime continues from the real one. So managers that exist already see that `now` jumps back, and lose no time.
  const uptime = HOST.uptime() ?? 0;
  t.mock.method(HOST, 'setTimeout', (run: () => void, ms: number) => setTimeout(run, ms));
  t.mock.method(HOST, 'clearTimeout', (timer: NodeJS.Timeout | undefined) => clearTimeout(timer));
  t.mock.method(HOST, 'now', now);
  t.mock.method(HOST, 'uptime', () => uptime + now());
}

/** Lets everything happen that needs no time. */
export async function turns(): Promise<void> {
  for (let count = 0; count < TURNS; count++) await new Promise((resolve) => turn(resolve));
}
