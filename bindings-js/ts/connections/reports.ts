/**
 * Which server is the primary, although the sentinels may disagree for a while.
 *
 * A sentinel that was cut off, frozen or restarted from an old file still names an old primary. So the report with the greatest
 * configuration epoch counts, because each failover has a greater one. In one epoch, the server that most sentinels name counts: after
 * a switch by hand, one of them may have missed it. A report that no sentinel has repeated for half a minute loses to one with a
 * smaller epoch: the sentinels may have been set up again.
 *
 * https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#configuration-epochs
 */

import type { Address } from './link.js';

/** What a sentinel says about the primary. */
export interface Report extends Address {
  readonly epoch: number;
  /** When the sentinel reported it, in milliseconds. */
  readonly at: number;
}

/** A report expires if no sentinel repeats it for this long. */
const FORGOTTEN_MS = 30_000;

export class Reports {
  /** The last report of each sentinel. */
  readonly #last = new Map<object, Report>();
  #current: Report | undefined;

  /** A sentinel has answered. Returns whether another server is the primary now. */
  take(sentinel: object, report: Report): boolean {
    this.#last.set(sentinel, report);
    const current = this.#current;
    const isOther = current === undefined || addressOf(current) !== addressOf(report);
    if (current !== undefined && isKnown(current, report.at)) {
      if (report.epoch < current.epoch) return false;
      if (isOther && report.epoch === current.epoch && this.#votes(current, report.at) >= this.#votes(report, report.at)) return false;
    }
    this.#current = report;
    return isOther;
  }

  /** How many sentinels report this now. */
  #votes(report: Report, now: number): number {
    const isSame = (last: Report): boolean => last.epoch === report.epoch && addressOf(last) === addressOf(report);
    return [...this.#last.values()].filter((last) => isKnown(last, now) && isSame(last)).length;
  }
}

function isKnown(report: Report, now: number): boolean {
  return now - report.at <= FORGOTTEN_MS;
}

function addressOf({ host, port }: Address): string {
  return `${host}:${port}`;
}
