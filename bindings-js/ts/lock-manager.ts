/** The client: where every lock begins. */

import type { Connection } from './connection.js';
import { recognise } from './connections/recognise.js';
import { asyncDispose } from './dispose.js';
import { type Closed, Driver } from './driver.js';
import { type Inspection, LOCK, type Wish } from './engine.js';
import { type Inspect, inspectCustom, inspected } from './inspect.js';
import type { Lease } from './lease.js';
import { type Lock, lockOf, ReadWriteLock } from './lock.js';
import { type MultiOptions, multiOf } from './multi.js';
import { readName } from './name.js';
import { type LockManagerOptions, type LockOptions, type QuorumOptions, readLockOptions, readManagerOptions, readQuorumOptions } from './options.js';
import { idOf, type Owner } from './owner.js';
import { openQuorum } from './quorum.js';
import { readSemaphoreOptions, type SemaphoreOptions } from './semaphore.js';
import { type LockManagerSnapshot, request, type RequestOptions } from './web-locks.js';

/** What is ready before a manager is made of it. */
class Opened {
  readonly #driver: Driver;
  readonly #defaults: Wish;

  constructor(driver: Driver, defaults: Wish) {
    this.#driver = driver;
    this.#defaults = defaults;
  }

  /** What is in it, if this is one; whatever it is, none of its code is run. */
  static read(value: unknown): { driver: Driver; defaults: Wish } | undefined {
    if (typeof value !== 'object' || value === null || !(#driver in value)) return undefined;
    return { driver: value.#driver, defaults: value.#defaults };
  }
}

/**
 * One client of a server. A process needs one for each server.
 *
 * It works over the connection that you have: an ioredis, node-redis or GLIDE client, or anything that runs commands. That
 * connection stays yours: it is never closed here, and it can be used for everything else at the same time, but for what
 * blocks it (`BLPOP`) or changes it (`SELECT`, a `MULTI` sent by itself). A second one, to be told when a lock is granted,
 * is made when somebody first waits, and closed by {@link LockManager.close}.
 *
 * A call that waits keeps the process alive; a lease that is held, its renewal and an idle manager don't.
 *
 * @example
 * ```ts
 * import { Redis } from 'ioredis';
 * import { LockManager } from 'leasehold';
 *
 * const locks = new LockManager(new Redis());
 * await using lease = await locks.mutex('invoice:42').acquire(); // waits up to 60 s, renews itself while held
 * await db.save(invoice, { fence: lease.fence, signal: lease.signal });
 * ```
 */
export class LockManager implements AsyncDisposable {
  readonly #driver: Driver;
  readonly #defaults: Wish;

  /**
   * Nothing is sent before the first lock.
   *
   * @throws `invalid-option` (a `TypeError`) for a connection that is closed, in subscriber mode or of an unknown kind, and
   * for an option that can't be used; `error.field` names it.
   */
  constructor(connection: Connection, options?: LockManagerOptions) {
    const { driver, defaults } = Opened.read(connection) ?? openOne(connection, options);
    this.#driver = driver;
    this.#defaults = defaults;
  }

  /**
   * Exclusive locks over an odd number of servers, three or more, that know nothing of each other (Redlock): a lock is held while a majority of them
   * says so. So no failover forgets it, and it goes on while a minority is gone. A majority must be there now.
   *
   * The engine for this is a WebAssembly module of its own, which is loaded when this is first called. There are exclusive locks
   * only; the other kinds answer `unsupported`. An error tells what each server said: `error.votes`.
   *
   * @throws `invalid-option` with the field `servers` for a number that is even or below three, for a connection or a server that is there twice, and
   * for a cluster; `unsupported` for a server that is too old; `unreachable`, `auth` (all as rejections).
   *
   * @example
   * ```ts
   * const locks = await LockManager.quorum([new Redis(6379, 'a'), new Redis(6379, 'b'), new Redis(6379, 'c')]);
   * await locks.mutex('invoice:42').run((lease) => charge(invoice, lease.fence));
   * ```
   */
  static async quorum(connections: readonly Connection[], options?: QuorumOptions): Promise<LockManager> {
    const { config, wish } = readQuorumOptions(options);
    return new LockManager(new Opened(await openQuorum(connections, config), wish) as unknown as Connection);
  }

  /**
   * An exclusive lock.
   *
   * @throws `invalid-option`.
   */
  mutex(name: string, options?: LockOptions): Lock {
    return lockOf(this.#driver, name, LOCK.exclusive, options, this.#defaults);
  }

  /**
   * A lock that its owner may take again while it holds it, without a round trip. It is Redisson's `RLock` on the wire: Java services and
   * this one exclude and wake each other on the same key.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * const owner = new Owner();
   * const lease = await locks.reentrant('account:7', owner).acquire();
   * const again = await locks.reentrant('account:7', owner).acquire(); // at once
   * await again.release(); // 'still-held'
   * await lease.release(); // 'released'
   * ```
   */
  reentrant(name: string, owner: Owner, options?: LockOptions): Lock {
    return lockOf(this.#driver, name, { ...LOCK.exclusive, owner: idOf(owner) }, options, this.#defaults);
  }

  /**
   * A number of permits, of which each acquire takes one or several, first come, first served.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * await locks.semaphore('reports', { limit: 5 }).run(() => render());
   * ```
   */
  semaphore(name: string, options: SemaphoreOptions): Lock {
    const { permits, limit, ...rest } = readSemaphoreOptions(options);
    return lockOf(this.#driver, name, { ...LOCK.exclusive, permits, limit }, rest, this.#defaults);
  }

  /**
   * Several names as one lock: one lease for all of them or none, and nobody deadlocks, in whatever order others name them. Names with one
   * hash tag are taken by one script if all are free; otherwise one after the other, in sorted order.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * await locks.multi(['account:1', 'account:2']).run(async (lease) => {
   *   for (const [account, fence] of lease.fences) await book(account, fence);
   * });
   * ```
   */
  multi(names: readonly string[], options?: MultiOptions): Lock {
    return multiOf(this.#driver, names, options, this.#defaults);
  }

  /**
   * A lock with many readers or one writer, in one queue: neither starves the other.
   *
   * @throws `invalid-option`.
   */
  readWrite(name: string, options?: LockOptions): ReadWriteLock {
    return new ReadWriteLock(this.#driver, readName(name, this.#driver.prefix), readLockOptions(options, this.#defaults));
  }

  /**
   * Takes a lock, calls back, and releases it when the callback's promise settles, as `navigator.locks.request` does.
   *
   * It differs where a lock of a fleet has to: the callback gets a {@link Lease}, whose `name` and `mode` are those of
   * the browser's `Lock`; a lease can be lost, which rejects the request with `lost` as a stolen lock would; there is
   * no `steal`; names may begin with a hyphen; and requests of several processes stand in one queue, first come, first
   * served but for a few hand-overs inside each process.
   *
   * @throws The callback's own error, and those of {@link Lock.run}; `unsupported` for `steal`, and for `signal` together
   * with `ifAvailable` (all as rejections).
   *
   * @example
   * ```ts
   * await locks.request('page:7', { mode: 'shared' }, async (lock) => render());
   * ```
   */
  request<T>(name: string, callback: (lock: Lease) => T | PromiseLike<T>): Promise<T>;
  request<T>(name: string, options: RequestOptions & { readonly ifAvailable: true }, callback: (lock: Lease | null) => T | PromiseLike<T>): Promise<T>;
  request<T>(name: string, options: RequestOptions & { readonly ifAvailable?: false | undefined }, callback: (lock: Lease) => T | PromiseLike<T>): Promise<T>;
  request<T>(name: string, options: RequestOptions, callback: (lock: Lease | null) => T | PromiseLike<T>): Promise<T>;
  request<T>(name: string, ...rest: unknown[]): Promise<T> {
    const [options, callback] = rest.length < 2 ? [undefined, rest[0]] : rest;
    return request(this.#driver, this.#defaults, name, options, callback) as Promise<T>;
  }

  /**
   * What this manager holds and waits for, as `navigator.locks.query` does for an origin. Other clients are not seen: ask
   * {@link LockManager.inspect} for the whole fleet.
   */
  async query(): Promise<LockManagerSnapshot> {
    return this.#driver.query();
  }

  /**
   * Asks the server who holds the lock `name` and who waits for it, in one round trip.
   *
   * @throws `invalid-option` for a bad name, `wrong-kind`, `unreachable`, `auth`, `closed` (as rejections).
   */
  async inspect(name: string): Promise<Inspection> {
    return this.#driver.inspect(readName(name, this.#driver.prefix));
  }

  /**
   * Takes the lock `name`, of whatever kind, from whoever holds it, and grants the next in line: an operator's way out. Resolves to how
   * many held it.
   *
   * Its holders are told `revoked`, or at their next renewal that the lease is gone. What they do until then they do beside
   * the next holder: only the fence keeps the resource safe.
   *
   * @throws As {@link LockManager.inspect}. `unreachable` leaves open whether it was done: it is never sent twice, as that would take
   * the lock from the next holder as well.
   */
  async forceRelease(name: string): Promise<number> {
    return this.#driver.forceRelease(readName(name, this.#driver.prefix));
  }

  /**
   * Ends the client: waits reject with `closed`, leases are released and their signals abort. The connection that you
   * brought stays open.
   *
   * It ends when the server has confirmed all releases, or when no answer has come for the response timeout; at once if nothing is held. It
   * never rejects: `unreleased` says how many leases the server has not confirmed as given back. These end with their TTL. A second call
   * ends with the first.
   *
   * @example
   * ```ts
   * const { unreleased } = await locks.close();
   * if (unreleased > 0) console.warn(`${unreleased} locks stay taken until their TTL ends`);
   * ```
   */
  close(): Promise<Closed> {
    return this.#driver.close();
  }

  /** Closes at the end of the block. */
  async [asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal */
  [inspectCustom](depth: number, options: object, inspect: Inspect): string {
    const { library, prefix, isClosed } = this.#driver;
    const { held, pending } = this.#driver.query();
    const fields = { connection: library, prefix: prefix || undefined, held: held.length, pending: pending.length, closed: isClosed || undefined };
    return inspected('LockManager', fields, depth, options, inspect);
  }
}

function openOne(connection: Connection, options: LockManagerOptions | undefined): { driver: Driver; defaults: Wish } {
  const { config, wish } = readManagerOptions(options);
  return { driver: new Driver(config, { connect: () => [recognise(connection)] }), defaults: wish };
}
