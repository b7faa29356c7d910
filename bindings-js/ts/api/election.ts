/** Elections: one leader at a time, and observers that learn who leads. */

import type { Client } from '../client/index.js';
import type { AcquireSettings, LockSpec } from '../engine/index.js';
import { isAbortOf, onAbort } from '../support/abort.js';
import { InvalidOptionError, isLeaseholdError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { formatObject, type InspectArguments, inspectSymbol } from '../support/host.js';
import type { ReleaseOutcome } from '../support/errors.generated.js';
import { type Lease, openLease } from './lease.js';
import { runWithLease } from './lock.js';
import { Observer } from './observer.js';
import { type Duration, readDuration, readFields, readSignal, readString } from './validate.js';

/** The options of an {@link Election}. */
export interface ElectionOptions {
  /** What observers learn about this candidate when it leads, such as its address: at most 1,024 bytes without control characters. */
  readonly value?: string | undefined;
  /** How long a leader that has died keeps the others waiting: 10 ms to 30 days. Default: the manager's `ttl`, which is 30 s. */
  readonly ttl?: Duration | undefined;
}

/** The time during which this candidate leads. The client renews it. It ends when the work of {@link Election.lead} ends. */
export class Term {
  /** Aborts when the term is lost, and when the signal of {@link Election.lead} aborts. Pass it to the work. */
  readonly signal: AbortSignal;
  readonly #lease: Lease;

  /** @internal */
  constructor(lease: Lease, signal: AbortSignal) {
    this.#lease = lease;
    this.signal = signal;
  }

  /**
   * The term's number, which is a fencing token: greater than that of every earlier term. Send it along with every write, and let
   * the resource refuse a smaller one than the greatest it has seen.
   */
  get fence(): number {
    return this.#lease.fence;
  }

  /** Whether the term goes on, by the local clock. No I/O. */
  get isLeader(): boolean {
    return this.#lease.isHeld;
  }

  /** How long the term goes on by the local clock unless it is renewed, in milliseconds. 0 once it has ended. No I/O. */
  get remaining(): number {
    return this.#lease.remaining;
  }

  /** Ends the term before the work has ended. The next candidate leads at once. */
  resign(): Promise<ReleaseOutcome> {
    return this.#lease.release();
  }

  /** @internal */
  [inspectSymbol](...args: InspectArguments): string {
    return formatObject('Term', { fence: this.fence, isLeader: this.isLeader }, args);
  }
}

/**
 * An election: at most one of its candidates leads at a time. If the leader dies, the next one leads within the TTL and a second, plus
 * one `claimWindow` for each dead candidate ahead of it. During an outage of the server, nobody leads once the TTL is over, and campaigns
 * go on. A lock of the same name fails with `wrong-kind`. A quorum has no elections.
 */
export class Election {
  /** The election's name, without the manager's prefix. */
  readonly name: string;
  readonly #client: Client;
  readonly #spec: LockSpec;
  readonly #settings: AcquireSettings;
  #lease: Lease | undefined;
  /** The terms that were lost and whose work has not ended yet, and when, by the client's clock in milliseconds. */
  readonly #lost = new Map<Lease, number>();

  /** @internal */
  constructor(client: Client, name: string, options: unknown, defaults: AcquireSettings) {
    const { value = '', ttl } = options === undefined ? {} : readFields(options, ['value', 'ttl']);
    this.#client = client;
    this.name = name;
    this.#spec = { name, mode: 'exclusive', kind: { type: 'election', value: readString('value', value) } };
    const given = ttl === undefined ? defaults.ttl : readDuration('ttl', ttl);
    this.#settings = { ttl: given, renew: true, maxHold: undefined, wait: Infinity, linger: undefined, atLeast: undefined, label: defaults.label };
  }

  /**
   * Campaigns, and does the work whenever this candidate leads. It campaigns again after each term, also after a loss or an outage,
   * until the signal aborts or the work fails. When the work ends, it resigns.
   *
   * If the term is lost, `term.signal` aborts, and the campaign begins again soon after that. Work that ignores the signal goes on: see
   * {@link Election.isHealthy}.
   *
   * @throws The error of the work, unless it only passes on that `term.signal` has aborted. `signal.reason`. `closed` if the manager
   * closes. `conflict` if this manager already campaigns in this election. `invalid-option`, `wrong-kind`, `unsupported` for a quorum, `auth`,
   * `server`, `protocol` (all as rejections).
   *
   * @example
   * ```ts
   * await locks.election('scheduler', { value: '10.0.0.7:8080' }).lead(async (term) => {
   *   await schedule({ fence: term.fence, signal: term.signal });
   * }, { signal: stopping });
   * ```
   */
  async lead(work: (term: Term) => unknown, options?: { readonly signal?: AbortSignal | undefined }): Promise<never> {
    if (typeof work !== 'function') throw new InvalidOptionError('work', `is ${formatValue(work)}: give a function`);
    const signal = options === undefined ? undefined : readSignal(readFields(options, ['signal']).signal);
    for (;;) {
      const lease = await this.#client.acquire(this.#spec, this.#settings, signal, openLease);
      try {
        await runWithLease(this.#client, lease, (held) => this.#work(held, work, signal));
      } catch (error) {
        if (signal !== undefined && isAbortOf(signal, error)) throw signal.reason;
        if (!isLeaseholdError(error, 'lost') || error.lockName !== this.name) throw error;
      }
      signal?.throwIfAborted();
    }
  }

  async #work(lease: Lease, work: (term: Term) => unknown, signal: AbortSignal | undefined): Promise<void> {
    this.#lease = lease;
    const { time } = this.#client;
    const controller = new AbortController();
    const stopWatching = onAbort(lease.signal, () => {
      this.#lost.set(lease, time.now());
      controller.abort(lease.signal.reason);
    });
    const stopListening = signal && onAbort(signal, () => controller.abort(signal.reason));
    try {
      await work(new Term(lease, controller.signal));
    } finally {
      stopListening?.();
      stopWatching();
      this.#lost.delete(lease);
      if (this.#lease === lease) this.#lease = undefined;
    }
  }

  /**
   * Learns who leads, without campaigning: the leader at first, and then each change. `null` means that nobody leads, or that the server
   * has not answered for the leader's TTL and one `claimWindow`. If several changes came since the last step, it gives the last one. It
   * never goes back to an earlier term. It ends with the loop, at a `return()`, and when the signal aborts.
   *
   * The client subscribes to the election's channel. It asks the server once at the beginning and after each break, once for each TTL of
   * the leader, and after a message that is late. If the connection carries no messages, it asks once for each `claimWindow`.
   *
   * @throws `signal.reason`. `wrong-kind`, `unsupported` for a quorum, `auth`, `server`, `protocol`, `closed` (all by the iterator).
   *
   * @example
   * ```ts
   * for await (const leader of locks.election('scheduler').observe()) {
   *   console.log(leader === null ? 'nobody leads' : `${leader.value} leads since ${leader.since.toISOString()}`);
   * }
   * ```
   */
  observe(options?: { readonly signal?: AbortSignal | undefined }): Observer {
    const signal = options === undefined ? undefined : readSignal(readFields(options, ['signal']).signal);
    return new Observer(this.#client, this.name, signal);
  }

  /** Whether this candidate leads, by the local clock. False from the moment at which the term can end on the server. No I/O. */
  get isLeader(): boolean {
    return this.#lease?.isHeld === true;
  }

  /**
   * For a liveness probe: false if a term was lost longer than `grace` ago and its work has not ended. Then the work ignores
   * `term.signal`, or can't be stopped. No I/O.
   */
  isHealthy(grace: Duration): boolean {
    const most = readDuration('grace', grace);
    const now = this.#client.time.now();
    return [...this.#lost.values()].every((lostAt) => now - lostAt <= most);
  }

  /** @internal */
  [inspectSymbol](...args: InspectArguments): string {
    return formatObject('Election', { name: this.name, isLeader: this.isLeader }, args);
  }
}
