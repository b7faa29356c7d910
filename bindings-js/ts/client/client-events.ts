/** Makes the events of one client, and gives them to the listeners of its manager. An event that nobody listens to costs nothing. */

import type { ReleaseOutcome } from '../engine/index.js';
import { type ErrorCode, isLeaseholdError, type LossReason } from '../support/errors.js';
import { emitWarning } from '../support/host.js';
import { soon } from '../support/timers.js';
import { type AcquiringEvent, eventModeOf, type Events, type LockManagerEvents, type LostEvent } from './events.js';
import type { LeaseState } from './lease-state.js';
import type { Attempt } from './operations.js';

export class ClientEvents {
  readonly #listeners: Events;
  readonly #now: () => number;

  /** `now` is when the engine got its latest input, in microseconds. */
  constructor(listeners: Events, now: () => number) {
    this.#listeners = listeners;
    this.#now = now;
  }

  /** A call asks for a lock. */
  acquiring(attempt: Attempt): void {
    if (this.#listeners.has('acquiring')) this.#listeners.emit('acquiring', describe(attempt));
  }

  /** The caller gets the lock soon. The lease of a rate ends with its grant. */
  granted(attempt: Attempt, lease: LeaseState, local: boolean): void {
    if (this.#listeners.has('acquire')) {
      const { id, fence } = lease;
      this.#tell('acquire', { ...describe(attempt), code: 'granted', waited: this.#waited(attempt), lease: id, fence, local });
    }
    if (lease.detached) this.released(lease, 'detached');
  }

  /** The caller gets a stored result soon. */
  stored(attempt: Attempt): void {
    if (this.#listeners.has('acquire')) this.#tell('acquire', { ...describe(attempt), code: 'stored', waited: this.#waited(attempt) });
  }

  /** A call did not get the lock. Returns the error. */
  refused(attempt: Attempt, code: ErrorCode, error: unknown): unknown {
    if (!this.#listeners.has('acquire')) return error;
    const holder = isLeaseholdError(error, 'busy') ? error.holder : undefined;
    this.#listeners.emit('acquire', { ...describe(attempt), code, waited: this.#waited(attempt), error, ...(holder && { holder }) });
    return error;
  }

  /** A release has ended. The end of a lost lease was told before. */
  released(lease: LeaseState, code: ReleaseOutcome | ErrorCode): void {
    if (lease.loss === undefined && this.#listeners.has('release')) this.#tell('release', { ...this.#describe(lease), code });
  }

  /** A lease was lost. A listener that the program has given the manager is a way to learn of it. */
  lost(lease: LeaseState, reason: LossReason): void {
    if (this.#listeners.hasListener('lost')) lease.watched = true;
    if (this.#listeners.has('lost')) this.#tell('lost', { ...this.#describe(lease), reason });
  }

  /** Calls wait for a key without a TTL. */
  blocked(name: string, waited: number): void {
    if (this.#listeners.has('blocked')) this.#tell('blocked', { name, waited });
  }

  /** A server's connection works again, after so many milliseconds. */
  reconnected(server: string | undefined, down: number): void {
    if (this.#listeners.has('reconnect')) this.#listeners.emit('reconnect', { server, down });
  }

  /** The worker can't renew leases, or can again. */
  worker(error: Error | undefined): void {
    if (error !== undefined && !this.#listeners.hasListener('worker')) {
      emitWarning({ type: 'LeaseholdWorkerWarning', code: 'LEASEHOLD_WORKER_FAILED', message: `${error.message}. ${WORKER_ADVICE}` });
    }
    if (this.#listeners.has('worker')) this.#tell('worker', { works: error === undefined, error });
  }

  /** Emits an event once the engine has handled its input, because a listener may call the manager. Keeps the order. */
  #tell<Name extends keyof LockManagerEvents>(name: Name, event: LockManagerEvents[Name]): void {
    soon(() => this.#listeners.emit(name, event));
  }

  /** How long an acquire has taken, in milliseconds. One that ends within its own input has taken no time. */
  #waited({ began }: Attempt): number {
    return began === undefined ? 0 : (this.#now() - began) / 1_000;
  }

  #describe({ id: lease, name, eventMode: mode, fence, since }: LeaseState): Omit<LostEvent, 'reason'> {
    return { lease, name, mode, fence, held: (this.#now() - since) / 1_000 };
  }
}

function describe({ id, lock }: Attempt): AcquiringEvent {
  return { id, name: lock.name, mode: eventModeOf(lock) };
}

const WORKER_ADVICE = 'Leases are renewed as without `renewIn` meanwhile, so a blocked event loop can lose them. Add a listener for `worker` to handle this.';
