/**
 * The host's timers and clocks.
 *
 * Fake timers of tests replace the globals, and those of `node:test` also replace the functions of `node:timers`. But a real server
 * runs in real time. So a manager on a real server uses the functions that the host had when this module was loaded, and fake timers
 * that are installed later don't affect it. A server in memory follows the program's time: see {@link PROGRAM_TIMERS}.
 */

import { isWorkerd, setTimerRef } from './host.js';

/** A timer of the host, or one that lets I/O go first. */
export type Timer = ReturnType<typeof setTimeout> | PatientTimer;

export interface Timers {
  /** Runs a function once, after so many milliseconds. */
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer | undefined): void;
}

export type HostTimer = ReturnType<typeof setTimeout>;

const { process } = globalThis as { process?: Partial<NodeJS.Process> };
// The functions of Node's own modules: Jest and Vitest may have replaced the globals before this module is loaded.
const node = isWorkerd() ? undefined : process;
// Called as plain functions, because browsers refuse them as methods of another object.
const { setTimeout: start, clearTimeout: clear, setImmediate: turn } = node?.getBuiltinModule?.('node:timers') ?? globalThis;
const { performance } = node?.getBuiltinModule?.('node:perf_hooks') ?? globalThis;
const now = performance.now.bind(performance);
// Fake timers replace it.
const { Date: Wall } = globalThis;
const os = isNodeOnLinux() ? node?.getBuiltinModule?.('node:os') : undefined;
const nextTick = (node?.getBuiltinModule?.('node:process') ?? process)?.nextTick;

/** Browsers have no `setImmediate`. */
const hasImmediate = typeof turn === 'function';

/** After so many readings without a fraction, a clock counts whole seconds. */
const MOST_WHOLE = 100;

/** What the host has. */
export const HOST = {
  setTimeout: (run: () => void, ms: number): HostTimer => start(run, ms),
  clearTimeout: (timer: HostTimer | undefined): void => clear(timer),
  setImmediate: (run: () => void): void => void (hasImmediate ? turn(run) : start(run, 0)),
  /** A monotonic clock, in milliseconds. */
  now: (): number => now(),
  /** The time since 1970, in milliseconds. It may be set to another time. */
  wall: (): number => Wall.now(),
  /**
   * A clock that never steps and counts the time in which the machine was suspended, in milliseconds, 10 at a time. Undefined where
   * there is none. It reads a file, so it costs 20 µs.
   */
  uptime: fineClock(os?.uptime),
};

/**
 * A clock in milliseconds, of one in seconds with fractions. Node on Linux counts whole seconds if it can't read `/proc/uptime`: then
 * it is always undefined. It is undefined before the first fraction, too, and never after that.
 */
export function fineClock(seconds: (() => number) | undefined): () => number | undefined {
  let [isFine, whole] = [false, 0];
  return () => {
    if (seconds === undefined || whole >= MOST_WHOLE) return undefined;
    const reading = seconds();
    isFine ||= !Number.isInteger(reading);
    if (!isFine) whole++;
    return isFine ? reading * 1_000 : undefined;
  };
}

/** A timer that fires later than this is late, because the program has blocked the event loop, in milliseconds. */
const LATE = 10;
/** The longest time that a timer of the host takes, in milliseconds: almost 25 days. With a longer one, Node fires it at once. */
const LONGEST = 2 ** 31 - 1;

/**
 * A timer that lets I/O go first if it is late. While the event loop is blocked, the sockets are not read. So the answer that this
 * timer limits may have arrived already.
 */
class PatientTimer {
  #run: (() => void) | undefined;
  #timer: HostTimer;
  #ref: 'ref' | 'unref' = 'ref';

  constructor(run: () => void, ms: number) {
    this.#run = run;
    this.#timer = this.#start(HOST.now() + ms, ms);
  }

  #start(due: number, ms: number): HostTimer {
    if (ms > LONGEST) return HOST.setTimeout(() => this.#continue(due), LONGEST);
    const end = (): void => this.#run?.();
    return HOST.setTimeout(() => (isLate(due) ? afterPendingIo(end) : end()), ms);
  }

  #continue(due: number): void {
    this.#timer = this.#start(due, due - HOST.now());
    setTimerRef(this.#timer, this.#ref);
  }

  ref(): void {
    this.#ref = 'ref';
    setTimerRef(this.#timer, 'ref');
  }

  unref(): void {
    this.#ref = 'unref';
    setTimerRef(this.#timer, 'unref');
  }

  clear(): void {
    this.#run = undefined;
    HOST.clearTimeout(this.#timer);
  }
}

/** Whether something that was due at this time, by the host's clock, is late. */
function isLate(due: number): boolean {
  return HOST.now() - due > LATE;
}

/** The time of everything but servers in memory. `now` is a monotonic clock, in milliseconds. */
export const HOST_TIME: Timers & { now(): number } = {
  setTimeout: (run, ms) => new PatientTimer(run, ms),
  clearTimeout: (timer) => (timer instanceof PatientTimer ? timer.clear() : HOST.clearTimeout(timer)),
  now: () => HOST.now(),
};

/** The timers that the program has now. A test may have replaced them, so they are looked up at each call. */
export const PROGRAM_TIMERS: Timers = {
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => (timer instanceof PatientTimer ? timer.clear() : clearTimeout(timer)),
};

/** On other hosts, the uptime may follow the wall clock or need a permission. */
function isNodeOnLinux(): boolean {
  const { Deno, Bun } = globalThis as { Deno?: unknown; Bun?: unknown };
  return process?.platform === 'linux' && process.versions?.node !== undefined && Deno === undefined && Bun === undefined && !isWorkerd();
}

/** Runs a function after the pending I/O and timers. */
export function afterPendingIo(run: () => void): void {
  HOST.setImmediate(run);
}

/** Runs a function after the calls that are made now, and in Node after those that this turn's replies lead to. */
export function afterPendingCalls(run: () => void): void {
  if (hasImmediate) HOST.setImmediate(run);
  else soon(run);
}

/** Runs a function once the code that runs now has ended (`process.nextTick`), or in a microtask. */
export const afterThisCode: (run: () => void) => void = typeof nextTick === 'function' ? (run) => void nextTick(run) : soon;

/** Runs a function in a microtask. `queueMicrotask` would not do: Jest's fake timers replace it. */
export function soon(run: () => void): void {
  void Promise.resolve().then(run);
}
