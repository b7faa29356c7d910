/** The state of a lease from its grant to its end. All its handles share it. */

import { type Grant, type LockSpec, type Mode, nameOnServer } from '../engine/index.js';
import { type AnyLeaseholdError, ClosedError, type LossReason, LostError } from '../support/errors.js';
import { emitWarning } from '../support/host.js';
import type { EventMode } from './events.js';

export class LeaseState {
  readonly id: number;
  readonly name: string;
  readonly #nameOnServer: string;
  /** How long the server keeps the lease unless it is renewed, in milliseconds. */
  readonly ttl: number;
  mode: Mode;
  fence: number;
  /** The fence of each name, if the lease holds several names. */
  #fences: ReadonlyMap<string, number> | undefined;
  /** When it was granted, in microseconds by the engine's clock. */
  readonly since: number;
  /** What its holder calls it. */
  readonly label: string | undefined;
  /** The kind of the lock, if it is no plain one. */
  readonly #kind: EventMode | undefined;
  /** The number of holds. Each handle is one hold. */
  holds = 1;
  /** Whether the program learns of a loss: the holder has read `signal` or `lost`, or the manager has a listener. */
  watched = false;
  /** Whether it was detached: it has ended here, and the lock stays taken. */
  detached = false;
  /** Why the lease ended before its holder released it. */
  ended: AnyLeaseholdError | undefined;
  // Made on first use: most leases are neither watched nor lost.
  #controller: AbortController | undefined;
  #lost: Promise<LossReason> | undefined;
  #resolveLost: ((reason: LossReason) => void) | undefined;
  #listeners: readonly (() => void)[] = NO_LISTENERS;

  constructor(grant: Grant, lock: LockSpec, ttl: number, now: number, label?: string) {
    const { name, kind } = lock;
    this.id = grant.lease;
    this.name = name;
    this.#nameOnServer = nameOnServer(lock);
    this.ttl = ttl;
    this.since = now;
    this.label = label;
    this.#kind = kind.type === 'lock' ? undefined : kind.type;
    this.mode = grant.mode;
    this.fence = grant.fence;
  }

  /** Whether it is a lease of this key: the prefix, and its name or one of its names. */
  isOf(key: string, prefix: string): boolean {
    if (!key.startsWith(prefix)) return false;
    const name = key.slice(prefix.length);
    return this.#kind === 'multi' ? this.#fences?.has(name) === true : this.#nameOnServer === name;
  }

  get fences(): ReadonlyMap<string, number> {
    return this.#fences ?? new Map([[this.name, this.fence]]);
  }

  /** Records the fence of each name of a lease on several names. */
  setFences(names: readonly string[], fences: readonly number[]): void {
    this.#fences = new Map(names.map((name, index) => [name, fences[index] as number]));
  }

  /** What events call its mode. */
  get eventMode(): EventMode {
    return this.#kind ?? this.mode;
  }

  get loss(): LossReason | undefined {
    return this.ended?.code === 'lost' ? this.ended.reason : undefined;
  }

  /** What `lost` resolves with. */
  get #reason(): LossReason | undefined {
    return this.ended?.code === 'closed' ? 'closed' : this.loss;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.ended !== undefined) this.#controller.abort(this.ended);
    }
    return this.#controller.signal;
  }

  get lost(): Promise<LossReason> {
    const reason = this.#reason;
    this.#lost ??= reason !== undefined ? Promise.resolve(reason) : new Promise((resolve) => (this.#resolveLost = resolve));
    return this.#lost;
  }

  /** Calls the listener once the lease has ended before its holder released it. An `AbortSignal` would cost more than the lock. */
  onEnd(listener: () => void): void {
    this.#listeners = [...this.#listeners, listener];
    if (this.ended !== undefined) listener();
  }

  offEnd(listener: () => void): void {
    this.#listeners = this.#listeners.length === 1 ? NO_LISTENERS : this.#listeners.filter((other) => other !== listener);
  }

  convert(grant: Grant): void {
    this.mode = grant.mode;
    this.fence = grant.fence;
  }

  markLost(reason: LossReason): void {
    this.ended ??= new LostError(this.name, reason);
  }

  /** The manager, not the holder, releases the lease. */
  markClosed(): void {
    this.ended ??= new ClosedError({ lockName: this.name });
  }

  /** Resolves `lost` and aborts `signal`. Warns of a loss that nobody watches for. This runs the user's code. */
  notify(): void {
    if (this.#reason !== undefined) this.#resolveLost?.(this.#reason);
    this.#controller?.abort(this.ended);
    for (const listener of this.#listeners) listener();
    if (this.loss !== undefined && !this.watched) emitWarning({ type: 'LeaseLostWarning', code: 'LEASEHOLD_LEASE_LOST', message: `${this.ended?.message}. ${ADVICE}` });
  }
}

const NO_LISTENERS: readonly (() => void)[] = [];
const ADVICE = 'Nothing in the program watches for this: pass `lease.signal` to the work, await `lease.lost`, use `run`, or add a listener for `lost`.';
