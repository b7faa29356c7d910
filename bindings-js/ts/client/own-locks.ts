/** What a client has of locks: for other clients that ask, and for errors of its own callers. */

import { nameOnServer } from '../engine/index.js';
import type { IdMap } from '../support/id-map.js';
import { LABEL_RULES } from '../support/options.generated.js';
import type { Called, Own } from './lease-labels.js';
import type { LeaseState } from './lease-state.js';
import type { Operations } from './operations.js';

export class OwnLocks {
  readonly #leases: IdMap<LeaseState>;
  readonly #operations: Operations;
  readonly #prefix: string;
  readonly #now: () => number;

  /** `now` is the current time by the engine's clock, in microseconds. */
  constructor(leases: IdMap<LeaseState>, operations: Operations, prefix: string, now: () => number) {
    this.#leases = leases;
    this.#operations = operations;
    this.#prefix = prefix;
    this.#now = now;
  }

  /** The leases of a lock, and the caller that has waited longest for it. */
  of(key: string): Own {
    const now = this.#now();
    const called = (since: number, label: string | undefined): Called => ({ time: (now - since) / 1_000, label });
    const leases: Called[] = [];
    let wait: Called | undefined;
    let seen = 0;
    for (const lease of this.#leases.values()) {
      if (++seen > LABEL_RULES.mostSeen) break;
      if (lease.isOf(key, this.#prefix)) leases.push(called(lease.since, lease.label));
    }
    seen = 0;
    for (const { lock, attempt, label } of this.#operations.acquires()) {
      if (wait !== undefined || ++seen > LABEL_RULES.mostSeen) break;
      const { kind } = lock;
      const names = kind.type === 'multi' ? kind.parts.map(nameOnServer) : [nameOnServer(lock)];
      if (names.some((one) => this.#prefix + one === key)) wait = called(attempt.began ?? now, label);
    }
    return { leases, wait };
  }

  /** A lease of this name. An error is not worth a long search, or a sort. */
  leaseOf(name: string): LeaseState | undefined {
    let seen = 0;
    const found = this.#leases.find((one) => one.name === name || ++seen > LABEL_RULES.mostSeen);
    return found?.name === name ? found : undefined;
  }

  /** How long the oldest of the leases has been held, in milliseconds. */
  longestHeld(): number | undefined {
    const now = this.#now();
    const [oldest] = this.#leases.values();
    return oldest && (now - oldest.since) / 1_000;
  }
}
