/** The clocks of the host. The engine makes one clock of them, which also counts the time in which the machine was suspended. */

import { HOST } from '../support/timers.js';

/** Both count milliseconds. Tests bring their own. */
export interface HostClocks {
  /** Never steps, but may stop while the machine is suspended. */
  monotonic(): number;
  /**
   * Keeps running while the machine is suspended. A step forward counts as time that has passed. A step back changes nothing.
   * `before` is what the monotonic clock has just told: to read it again would take as long as a part of the lock.
   */
  wall(before: number): number;
}

/** How often the slow clock is read, in milliseconds. */
const SECOND = 1_000;
/** A greater change of the wall clock against the monotonic one is a step or a suspension, in milliseconds. */
const NOTICEABLE = 5;
/** If reading two clocks takes longer than this, the process was interrupted. In milliseconds. */
const AT_ONCE = 2;

/**
 * The clocks of this host. In Node on Linux, a clock that nobody can set tells a suspension from a step of the wall clock. It is slow,
 * so it is read once a second, and when the wall clock has moved.
 */
export function hostClocks(): HostClocks {
  let [gap, read, ahead] = [NaN, -Infinity, 0];
  const wall = (before: number): number => {
    // Before the slow clock is read, so that a suspension after that moves it.
    const offset = HOST.wall() - before;
    const moved = Math.abs(offset - gap) > NOTICEABLE;
    if (!moved && before - read < SECOND) return before + ahead;
    const uptime = HOST.uptime();
    if (uptime === undefined) return HOST.wall();
    const after = HOST.now();
    // The time of an interruption is no suspension: the slow clock was read before its end.
    ahead = after - before <= AT_ONCE || read === -Infinity ? uptime - before : Math.max(ahead, uptime - after);
    [gap, read] = [offset, after];
    return before + ahead;
  };
  return { monotonic: () => HOST.now(), wall };
}

/** After so many suspensions, the oldest is forgotten. */
const MOST_STEPS = 16;

/**
 * Converts times of the monotonic clock to the engine's, also times before the last input. The engine's clock is ahead by the time in
 * which the machine was suspended, so by more and more.
 */
export class Moments {
  /** By how much the engine's clock is ahead from this time on, in microseconds. The oldest first. */
  #steps: { readonly from: number; readonly ahead: number }[] = [];

  /** At this time of the monotonic clock, in milliseconds, the engine's clock showed this, in microseconds. */
  note(monotonic: number, engine: number): void {
    const ahead = engine - monotonic * 1_000;
    const last = this.#steps.at(-1);
    // A reading is rounded to a microsecond.
    if (last !== undefined && ahead - last.ahead < 2) return;
    this.#steps.push({ from: monotonic, ahead });
    if (this.#steps.length > MOST_STEPS) this.#steps.shift();
  }

  /** The engine's time at this time of the monotonic clock, or an earlier one. Undefined if it is too long ago. */
  at(monotonic: number): number | undefined {
    const step = this.#steps.filter(({ from }) => from <= monotonic).at(-1);
    return step && Math.max(0, Math.floor(monotonic * 1_000 + step.ahead));
  }
}
