/** Takes locks from their holders, for requests with `steal`. */

import type { Client, Closed, LockInfo } from '../client/index.js';
import { type AcquireSettings, type LockSpec, nameOnServer } from '../engine/index.js';
import { BusyError, ClosedError, UnsupportedError } from '../support/errors.js';
import { Once } from '../support/once.js';
import type { Lease } from './lease.js';
import { Lock, runWithLease } from './lock.js';

/** How often to take the lock before giving up, if other clients are faster each time. */
const MOST_ATTEMPTS = 20;

/**
 * The locks that one manager has stolen.
 *
 * The manager's own client has local callers that wait for the name, and may hold it itself. So each steal has a client of its
 * own on the same connection, which knows nothing of the name and asks the server at once.
 */
export class Stealing {
  readonly #owner: Client;
  readonly #open: (() => Client) | undefined;
  /** The clients that steal a lock or hold a stolen one. */
  readonly #thieves = new Set<Client>();
  readonly #closing = new Once<Closed>();
  #draining = false;

  /** `open` makes a client whose tries go ahead of all waiters. A quorum has none. */
  constructor(owner: Client, open?: () => Client) {
    this.#owner = owner;
    this.#open = open;
  }

  get isPossible(): boolean {
    return this.#open !== undefined;
  }

  /** Takes the lock, runs the work, and releases the lock. */
  async run<T>(lock: LockSpec, settings: AcquireSettings, work: (lease: Lease) => T | PromiseLike<T>): Promise<T> {
    if (this.#draining || this.#owner.isClosed) throw new ClosedError({ lockName: lock.name });
    if (this.#open === undefined) throw new UnsupportedError('`steal` in a quorum: use `forceRelease`', { lockName: lock.name });
    const thief = this.#open();
    this.#thieves.add(thief);
    try {
      const lease = await this.#take(thief, lock, settings);
      // Another thief may have been faster.
      lease.signal.throwIfAborted();
      return await runWithLease(thief, lease, work);
    } finally {
      await thief.close();
      this.#thieves.delete(thief);
    }
  }

  /** The locks that the manager holds and waits for, once the server has answered the calls until now. */
  async query(): Promise<{ held: LockInfo[]; pending: LockInfo[]; lingering: LockInfo[] }> {
    await Promise.all(this.#clients.map((client) => client.settled()));
    const all = this.#clients.map((client) => client.query());
    const join = (list: 'held' | 'pending' | 'lingering'): LockInfo[] => all.flatMap((snapshot) => snapshot[list]);
    return { held: join('held'), pending: join('pending'), lingering: join('lingering') };
  }

  /** Closes all of the manager's clients. With `drain`, their holders first have this many milliseconds to release their leases. */
  async close(drain?: number): Promise<Closed> {
    if (drain !== undefined) {
      this.#draining = true;
      await Promise.all(this.#clients.map((client) => client.drain(drain)));
    }
    return this.#closing.run(() => this.#close());
  }

  /** The manager's own client, and those that have stolen a lock. */
  get #clients(): readonly Client[] {
    return [this.#owner, ...this.#thieves];
  }

  async #close(): Promise<Closed> {
    const all = await Promise.all(this.#clients.map((client) => client.close()));
    const sum = (count: keyof Closed): number => all.reduce((sum, closed) => sum + closed[count], 0);
    return { lost: sum('lost'), unreleased: sum('unreleased') };
  }

  async #take(thief: Client, spec: LockSpec, settings: AcquireSettings): Promise<Lease> {
    const began = this.#owner.time.now();
    // The manager's earlier requests come first, so a lock that one of them has just asked for is taken from it too.
    await this.#owner.settled();
    const lock = new Lock(thief, spec, settings);
    // A free lock needs no force. A name that holds another kind of lock is refused here.
    let lease = await lock.tryAcquire();
    for (let attempt = 0; lease === null && attempt < MOST_ATTEMPTS; attempt++) lease = await this.#force(thief, lock, spec);
    if (lease !== null) return lease;
    throw new BusyError({ lockName: spec.name, waited: Math.trunc(this.#owner.time.now() - began) });
  }

  /** Takes the lock from its holders. Resolves to null if another client took it then. */
  async #force(thief: Client, lock: Lock, spec: LockSpec): Promise<Lease | null> {
    const name = nameOnServer(spec);
    // All in one turn, so that they are sent together and another client rarely gets in between. The holders of this manager know of
    // their loss before the thief gets its lease.
    const [force, lease] = await Promise.allSettled([
      thief.forceRelease(name, false),
      lock.tryAcquire().then((lease) => lease && watched(lease)),
      ...this.#clients.map((client) => (client === thief ? undefined : client.stolen(name))),
    ]);
    if (lease.status === 'rejected') throw lease.reason;
    if (lease.value === null && force.status === 'rejected') throw force.reason;
    return lease.value;
  }
}

/** Its loss is not reported as one that nothing watches for, even if another thief is faster. */
function watched(lease: Lease): Lease {
  void lease.signal;
  return lease;
}
