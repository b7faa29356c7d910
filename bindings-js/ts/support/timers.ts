/**
 * The host's timers and clocks.
 *
 * Fake timers of tests replace the globals, those of `node:test` also the functions of `node:timers`. But a real server goes on in
 * real time. So a manager on one uses what the host had when this module was loaded, and fake timers that come later are nothing to
 * it. A server in memory follows the program's time: see {@link PROGRAM_TIMERS}.
 */

import { isWorkerd } from './host.js';

export type Timer = ReturnType<typeof setTimeout>;

export interface Timers {
  /** Runs a function once, after so many milliseconds. */
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer | undefined): void;
}

const { process } = globalThis as { process?: Partial<NodeJS.Process> };
// The functions of Node's own modules: Jest and Vitest may have replaced the globals before this module is loaded.
const node = isWorkerd() ? undefined : process;
// Called as plain functions, because browsers refuse them as methods of another object.
const { setTimeout: start, clearTimeout: clear, setImmediate: turn } = node?.getBuiltinModule?.('node:timers') ?? globalThis;
const { performance } = node?.getBuiltinModule?.('node:perf_hooks') ?? globalThis;
const now = performance.now.bind(performance);
const nextTick = (node?.getBuiltinModule?.('node:process') ?? process)?.nextTick;

/** Browsers have no `setImmediate`. */
const hasImmediate = typeof turn === 'function';

/** What the host has. */
export const HOST = {
  setTimeout: (run: () => void, ms: number): Timer => start(run, ms),
  clearTimeout: (timer: Timer | undefined): void => clear(timer),
  setImmediate: (run: () => void): void => void (hasImmediate ? turn(run) : start(run, 0)),
  /** A monotonic clock, in milliseconds. */
  now: (): number => now(),
};

/** The time of everything but servers in memory. `now` is a monotonic clock, in milliseconds. */
export const HOST_TIME: Timers & { now(): number } = {
  setTimeout: (run, ms) => HOST.setTimeout(run, ms),
  clearTimeout: (timer) => HOST.clearTimeout(timer),
  now: () => HOST.now(),
};

/** Those that the program has now. A test may have replaced them, so they are looked up at each call. */
export const PROGRAM_TIMERS: Timers = {
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => clearTimeout(timer),
};

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
