/** Decorators for methods that hold a lock while they run. */

import { AsyncLocalStorage } from 'node:async_hooks';

import { InvalidOptionError, type Lease, type Lock, type LockManager, type LockOptions, type OnceCallOptions } from '../index.js';
import { checkKey, type LockedMethod, type LockKey, nameFor } from './key.js';
import { injected, managerOf, methodOf, replaceMethod } from './methods.js';

const LEASES = Symbol.for('leasehold.leases');

/** The options of {@link Locked}: those of an acquire, and these. */
export interface LockedOptions extends LockOptions {
  /** The name of the module whose manager makes the lock. By default, it is the module without a name. */
  readonly manager?: string | undefined;
  /**
   * Makes another lock than a mutex.
   *
   * @example
   * ```ts
   * @Locked('tenant:{0}', { lock: (locks, name) => locks.semaphore(name, { limit: 2 }) })
   * ```
   */
  readonly lock?: ((locks: LockManager, name: string) => Lock) | undefined;
}

/** The options of {@link Once}: those of `locks.once`, and the name of the module. */
export interface OnceMethodOptions extends Omit<OnceCallOptions, 'signal'> {
  /** The name of the module whose manager is used. By default, it is the module without a name. */
  readonly manager?: string | undefined;
}

/** The copies of this module for `import` and for `require` share one storage, which is here. */
const shared = globalThis as { [LEASES]?: AsyncLocalStorage<Lease> };
/** The lease under which the code runs. */
const leases = (shared[LEASES] ??= new AsyncLocalStorage<Lease>());

/**
 * The lease of the innermost method with {@link Locked} or {@link Once} that called this code, also through other classes and after
 * an `await`. Its `signal` aborts if the lock is lost. Send its `fence` with every write.
 *
 * Code that the method doesn't wait for still gets this lease after its release. Then `isHeld` is false.
 *
 * @throws `invalid-option` outside of such a method.
 *
 * @example
 * ```ts
 * const { fence, signal } = currentLease();
 * await this.orders.save(order, { fence, signal });
 * ```
 */
export function currentLease(): Lease {
  const lease = leases.getStore();
  if (lease === undefined) throw new InvalidOptionError('currentLease', 'was called outside of a method with @Locked or @Once');
  return lease;
}

/**
 * Holds a mutex while the method runs. The call waits for the lock, runs the method, and releases the lock, as `Lock.run` does. If the
 * lease is lost, the call rejects with `lost`, and the `signal` of {@link currentLease} aborts.
 *
 * A function as `key` may return several names: all of them are one lock.
 *
 * `this` and the arguments are those of the call. The method must be async, because its callers get a promise. The class must be a
 * provider or a controller: Nest gives it the manager. The application doesn't start without a {@link LeaseholdModule}. Overloads share the
 * lock. A method that overrides this one is not locked, unless it has the decorator, too. Calling `super` from there asks for the lock
 * again: with the same name, that call waits for itself and fails with `busy`. The same is true for one locked method that calls
 * another one with the same name.
 *
 * @throws (the call, as rejections) The errors of the method, of `key` and of `Lock.run`. `invalid-option` if Nest has not made the
 * instance.
 *
 * @example
 * ```ts
 * @Locked('order:{0}', { wait: '5s' })
 * async pay(id: string, amount: number): Promise<void> {
 *   await this.orders.pay(id, amount, currentLease().fence);
 * }
 *
 * @Locked((from: Account, to: Account) => [`account:${from.id}`, `account:${to.id}`])
 * async transfer(from: Account, to: Account, amount: number): Promise<void> {}
 * ```
 */
export function Locked<Args extends any[]>(key: LockKey<Args, string | readonly string[]>, options: LockedOptions = {}): LockedMethod<Args> {
  const { manager, lock = (locks, name) => locks.mutex(name), ...settings } = options;
  checkKey('@Locked', key);
  return decorator('@Locked', manager, (locks, self, args, work) => {
    const name = nameFor<string | readonly string[]>(key, self, args);
    return (Array.isArray(name) ? locks.multi(name) : lock(locks, name as string)).run(work, settings);
  });
}

/**
 * Runs the method once for each name, in all processes together: one call does the work, and all others get its stored result, as with
 * `locks.once`. Results are JSON: `undefined` becomes `null`, and a `Date` becomes a string.
 *
 * What {@link Locked} says about `this`, the class and overriding is also true here.
 *
 * @throws (the call, as rejections) The errors of the method, of `key` and of `locks.once`. `invalid-option` if Nest has not made the
 * instance.
 *
 * @example
 * ```ts
 * @Cron('0 3 * * *', { timeZone: 'UTC' })
 * @Once(() => `nightly:${new Date().toISOString().slice(0, 10)}`, { keep: '36h', wait: '2h' })
 * async nightly(): Promise<void> {
 *   await this.report(currentLease().signal);
 * }
 * ```
 */
export function Once<Args extends any[]>(key: LockKey<Args>, options: OnceMethodOptions): LockedMethod<Args> {
  const { manager, ...settings } = options;
  checkKey('@Once', key);
  return decorator('@Once', manager, (locks, self, args, work) => locks.once(nameFor(key, self, args), work, settings));
}

/** Runs the work under a lock. */
type Runner = (locks: LockManager, self: unknown, args: unknown[], work: (lease: Lease) => unknown) => Promise<unknown>;

function decorator(name: string, manager: string | undefined, run: Runner): LockedMethod<any[]> {
  return (target, property, descriptor) => {
    const method = methodOf(name, target, property, descriptor);
    const place = injected(target, manager);
    const label = `${target.constructor.name}.${String(property)}`;
    async function locked(this: unknown, ...args: unknown[]): Promise<unknown> {
      return run(managerOf(this, place, label), this, args, (lease) => leases.run(lease, () => method.apply(this, args)));
    }
    replaceMethod(descriptor as PropertyDescriptor, method, locked);
  };
}
