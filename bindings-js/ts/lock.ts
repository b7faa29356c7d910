/** A lock as one caller wants it, and the ways to take it. */

import type { Driver } from './driver.js';
import { type Kind, LOCK, type Mode, type Wish } from './engine.js';
import { InvalidOptionError, isLeaseholdError, UnsupportedError } from './errors.js';
import { type Inspect, inspectCustom, inspected } from './inspect.js';
import type { Lease } from './lease.js';
import { readName } from './name.js';
import { type AcquireOptions, type LockOptions, readAcquireOptions, readLockOptions } from './options.js';
import { runUnder } from './run.js';
import { shown } from './shown.js';

/**
 * A name, how it is to be held, and the options. Nothing is sent before it is acquired; keep it as long as you like and
 * acquire as often as you like, also at the same time.
 */
export class Lock {
  /** The lock's name, without the manager's prefix. */
  readonly name: string;
  /** Whether it is taken exclusively or shared. */
  readonly mode: Mode;
  readonly #driver: Driver;
  readonly #kind: Kind;
  readonly #wish: Wish;

  /** @internal */
  constructor(driver: Driver, name: string, kind: Kind, wish: Wish) {
    this.#driver = driver;
    this.name = name;
    this.mode = kind.mode;
    this.#kind = kind;
    this.#wish = wish;
  }

  /**
   * Waits until the lock is free and takes it. Whoever holds it already waits for itself, and wants {@link Lease.nested} instead; the owner of a reentrant
   * lock need not care.
   *
   * @throws `busy` when the wait is over, `unreachable` when no server answered in that time, `invalid-option` at once for a
   * name or an option that can't be used, `not-replicated`, `wrong-kind`, `auth`, `server`, `closed`; and `signal.reason` when it was aborted
   * (all as rejections).
   *
   * @example
   * ```ts
   * const lease = await locks.mutex('invoice:42').acquire({ wait: '5s' });
   * try {
   *   await db.save(invoice, lease.fence);
   * } finally {
   *   await lease.release();
   * }
   * ```
   */
  acquire(options?: AcquireOptions): Promise<Lease> {
    // No `async` function: each promise more is a part of what a hand-over costs.
    try {
      const { wish, signal } = readAcquireOptions(options, this.#wish);
      return this.#acquire(wish, signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Takes the lock if it is free; null if somebody else holds it or waits for it. It never waits for the lock: `wait` bounds how long the
   * server may take to answer, where that is less than the `responseTimeout`.
   *
   * @throws As {@link Lock.acquire}, but never `busy`; `unreachable` if the server has not answered by then.
   *
   * @example
   * ```ts
   * const lease = await locks.mutex('nightly-report').tryAcquire();
   * if (lease === null) return; // another instance does it
   * ```
   */
  async tryAcquire(options?: AcquireOptions): Promise<Lease | null> {
    const { wish, signal } = readAcquireOptions(options, this.#wish);
    try {
      const within = wish.wait === Infinity ? undefined : wish.wait;
      return await this.#acquire({ ...wish, wait: undefined, within }, signal);
    } catch (error) {
      if (isLeaseholdError(error, 'busy') && error.lockName === this.name) return null;
      throw error;
    }
  }

  /**
   * Does `work` under the lock: acquires, works, releases. It resolves to what the work does, and only if the lease was held
   * from the start of the work to its end.
   *
   * When the lease is lost, `lease.signal` aborts and `run` rejects with `lost`; work that does not heed the signal can not
   * be stopped, goes on, and what becomes of it is ignored. Whatever the work throws is thrown, as it is.
   *
   * @throws The work's own error, those of {@link Lock.acquire}, `lost`, and `closed` when the manager was closed meanwhile.
   *
   * @example
   * ```ts
   * const total = await locks.mutex('invoice:42').run(async (lease) => {
   *   return charge(invoice, { fence: lease.fence, signal: lease.signal });
   * });
   * ```
   */
  async run<T>(work: (lease: Lease) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    if (typeof work !== 'function') throw new InvalidOptionError('work', `is ${shown(work)}: give a function`);
    return runUnder(await this.acquire(options), work);
  }

  #acquire(wish: Wish, signal: AbortSignal | undefined): Promise<Lease> {
    const { replicas } = wish;
    if (replicas === undefined) return this.#driver.acquire(this.name, this.#kind, wish, signal);
    const problem = this.#driver.replicasProblem(this.#kind);
    if (problem !== undefined) throw new UnsupportedError(problem, { lockName: this.name });
    return this.#driver.acquire(this.name, this.#kind, wish, signal).then((lease) => lease.confirmed(replicas, signal));
  }

  /** @internal */
  [inspectCustom](depth: number, options: object, inspect: Inspect): string {
    return inspected('Lock', { name: this.name, mode: this.mode }, depth, options, inspect);
  }
}

/**
 * A lock with two sides: many readers, or one writer. Both wait in one queue: neither starves the other.
 *
 * @example
 * ```ts
 * const page = locks.readWrite('page:7');
 * await page.read().run((lease) => render());
 * await page.write().run((lease) => save(lease.fence));
 * ```
 */
export class ReadWriteLock {
  /** The lock's name, without the manager's prefix. */
  readonly name: string;
  readonly #driver: Driver;
  readonly #wish: Wish;

  /** @internal */
  constructor(driver: Driver, name: string, wish: Wish) {
    this.#driver = driver;
    this.name = name;
    this.#wish = wish;
  }

  /** The shared side: held beside other readers. */
  read(options?: LockOptions): Lock {
    return new Lock(this.#driver, this.name, LOCK.shared, readLockOptions(options, this.#wish));
  }

  /** The exclusive side. */
  write(options?: LockOptions): Lock {
    return new Lock(this.#driver, this.name, LOCK.exclusive, readLockOptions(options, this.#wish));
  }

  /** @internal */
  [inspectCustom](depth: number, options: object, inspect: Inspect): string {
    return inspected('ReadWriteLock', { name: this.name }, depth, options, inspect);
  }
}

/** A lock of this name, with options over its manager's. */
export function lockOf(driver: Driver, name: unknown, kind: Kind, options: unknown, defaults: Wish): Lock {
  return new Lock(driver, readName(name, driver.prefix), kind, readLockOptions(options, defaults));
}
