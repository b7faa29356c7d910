/** A lock with its options, and the ways to take it. */

import type { Client, LeaseState } from '../client/index.js';
import { type AcquireSettings, type LockSpec, type Mode, PLAIN } from '../engine/index.js';
import { isAbortOf } from '../support/abort.js';
import { ClosedError, InvalidOptionError, isLeaseholdError, LostError, UnsupportedError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { formatObject, type InspectArguments, inspectSymbol } from '../support/host.js';
import { ignore } from '../support/ignore.js';
import { withoutWait } from '../support/options.generated.js';
import { type Lease, openLease, stateOf } from './lease.js';
import {
  type AcquireOptions, type LockOptions, readAcquireOptions, readLockOptions, readMultiOptions, readParts,
} from './options.js';
import { readName, readToken } from './validate.js';

/** What a lock is, without its options. Undefined for something else. */
let specOf: (value: unknown) => LockSpec | undefined;

/**
 * A lock's name, mode and options. Making one sends nothing. You can keep it and acquire it as often as you like, also
 * several times at once.
 */
export class Lock {
  /** The lock's name, without the manager's prefix. */
  readonly name: string;
  /** Whether the lock is taken exclusively or shared. */
  readonly mode: Mode;
  readonly #client: Client;
  readonly #spec: LockSpec;
  readonly #settings: AcquireSettings;

  /** @internal */
  constructor(client: Client, spec: LockSpec, settings: AcquireSettings) {
    this.#client = client;
    this.name = spec.name;
    this.mode = spec.mode;
    this.#spec = spec;
    this.#settings = settings;
  }

  static {
    specOf = (value) => typeof value === 'object' && value !== null && #spec in value ? value.#spec : undefined;
  }

  /**
   * Waits until the lock is free (60 s by default) and takes it. Acquiring a lock that you already hold waits until the
   * timeout: take a {@link Lease.nested} hold instead, or use a reentrant lock.
   *
   * @throws `busy` if the wait ends first, `unreachable` if no server answers in that time, `invalid-option` at once for an
   * option that can't be used, `not-replicated`, `wrong-kind`, `cross-slot`, `unsupported`, `auth`, `server`, `protocol`,
   * `closed`, and `signal.reason` if the signal aborts (all as rejections).
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
    // Not an `async` function: every extra promise makes a hand-over slower.
    try {
      const { settings, signal } = readAcquireOptions(options, this.#settings);
      return this.#client.acquire(this.#spec, settings, signal, openLease);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Takes the lock if it is free. Resolves to `null` if another client holds it or waits for it. It never waits for the lock:
   * `wait` limits how long the server may take to answer, if it is shorter than the `responseTimeout`.
   *
   * @throws As {@link Lock.acquire}, but never `busy`. `unreachable` if the server does not answer in time.
   *
   * @example
   * ```ts
   * const lease = await locks.mutex('cache:rates').tryAcquire();
   * if (lease === null) return cached; // another instance refreshes it now
   * ```
   *
   * This does not make a job run only once: an instance whose clock is behind starts later and finds the lock free again. Such a job must
   * record that it is done, as the example `nightly-job.mjs` in the repository does.
   */
  tryAcquire(options?: AcquireOptions): Promise<Lease | null> {
    try {
      const { settings, signal } = readAcquireOptions(options, this.#settings);
      return this.#client.tryAcquire(this.#spec, withoutWait(settings), signal, openLease);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Takes over a lease that another process holds or has detached. `token` is what {@link Lease.token} or {@link Lease.detach}
   * returned there. This lock must be like the one that acquired the lease: the same name, and the same mode or number of permits.
   *
   * The former holder's lease is lost. The new lease has a greater fence, so a resource that checks fences refuses the former
   * holder once it has seen the new one. The new lease is renewed, extended, converted and released like any other.
   *
   * It doesn't wait: it ends within one `responseTimeout`. The options apply, except `wait` and `linger`. If the signal aborts
   * before this process has taken the lease, its holder keeps it. Otherwise the lease is released.
   *
   * @throws `not-held` if the lease has ended, or if it was converted, shortened, detached or adopted after the call that gave the
   * token. `conflict` if it has another mode or number of permits. `invalid-option` with the field `token` for a text that is not
   * a token. `unsupported` for reentrant locks, several names and quorums. `unreachable` if no server answered in time: the former
   * holder may have lost the lease.
   * `not-replicated`, `wrong-kind`, `auth`, `server`, `closed`, and `signal.reason` (all as rejections).
   *
   * @example
   * ```ts
   * // The process that accepts the job
   * const lease = await locks.mutex('invoice:42').acquire({ ttl: '1m', renew: false });
   * await queue.send({ invoice: 42, token: lease.token() });
   *
   * // The process that does the job
   * await using adopted = await locks.mutex('invoice:42').adopt(message.token);
   * ```
   */
  async adopt(token: string, options?: AcquireOptions): Promise<Lease> {
    const { settings, signal } = readAcquireOptions(options, this.#settings);
    const read = readToken(token);
    if (this.#spec.kind.type === 'multi') throw new UnsupportedError("a lease of several names can't be adopted", { lockName: this.name });
    return await this.#client.acquire(this.#spec, settings, signal, openLease, read);
  }

  /**
   * Acquires the lock, runs `work` and releases the lock, unless the work has detached the lease. It resolves to the result of
   * `work`, and only if the lease was held the whole time.
   *
   * If the lease is lost, `lease.signal` aborts and `run` rejects with `lost`. Work that ignores the signal can't be stopped:
   * it goes on, and its result is ignored.
   *
   * An error of your work is passed on unchanged, also after a loss. But if it only passes on that `lease.signal` has aborted,
   * `run` rejects with `lost`, and your error is its `cause`. That is so if your error or one of its causes is
   * `lease.signal.reason`, or an `AbortError` without a cause.
   *
   * @throws The error of `work`, the errors of {@link Lock.acquire}, `lost`, and `closed` if the manager is closed meanwhile.
   *
   * @example
   * ```ts
   * const total = await locks.mutex('invoice:42').run(async (lease) => {
   *   return charge(invoice, { fence: lease.fence, signal: lease.signal });
   * });
   * ```
   */
  async run<T>(work: (lease: Lease) => T | PromiseLike<T>, options?: AcquireOptions): Promise<T> {
    if (typeof work !== 'function') throw new InvalidOptionError('work', `is ${formatValue(work)}: give a function`);
    return await runWithLease(this.#client, await this.acquire(options), work);
  }

  /** @internal */
  [inspectSymbol](...args: InspectArguments): string {
    return formatObject('Lock', { name: this.name, mode: this.mode }, args);
  }
}

/**
 * A lock for many readers or one writer. Both wait in one queue, so neither starves the other.
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
  readonly #client: Client;
  readonly #settings: AcquireSettings;

  /** @internal */
  constructor(client: Client, name: string, settings: AcquireSettings) {
    this.#client = client;
    this.name = name;
    this.#settings = settings;
  }

  /** The readers' side. Many readers can hold the lock at the same time. */
  read(options?: LockOptions): Lock {
    return new Lock(this.#client, { name: this.name, mode: 'shared', kind: PLAIN }, readLockOptions(options, this.#settings));
  }

  /** The writer's side. A writer holds the lock alone. */
  write(options?: LockOptions): Lock {
    return new Lock(this.#client, { name: this.name, mode: 'exclusive', kind: PLAIN }, readLockOptions(options, this.#settings));
  }

  /** @internal */
  [inspectSymbol](...args: InspectArguments): string {
    return formatObject('ReadWriteLock', { name: this.name }, args);
  }
}

/** What a manager gives its locks. */
export interface ManagerContext {
  readonly client: Client;
  /** The options of locks that have none of their own. */
  readonly defaults: AcquireSettings;
}

/** Makes a lock whose options override those of its manager. */
export function makeLock({ client, defaults }: ManagerContext, spec: Omit<LockSpec, 'name'> & { name: unknown }, options: unknown): Lock {
  return new Lock(client, { ...spec, name: readName(spec.name, client.prefix) }, readLockOptions(options, spec.kind.type === 'lock' ? defaults : withoutLinger(defaults)));
}

/** The manager's `linger` is for locks that have it. */
export function withoutLinger(defaults: AcquireSettings): AcquireSettings {
  return { ...defaults, linger: undefined };
}

/** Makes one lock of several. Its own name is all of theirs, separated by commas. */
export function makeMultiLock({ client, defaults }: ManagerContext, given: unknown, options: unknown): Lock {
  const parts = readParts(given, client.prefix, specOf);
  const { oneScript, ...rest } = readMultiOptions(options);
  const spec: LockSpec = { name: parts.map(({ name }) => name).join(', '), mode: 'exclusive', kind: { type: 'multi', parts, oneScript } };
  return new Lock(client, spec, readLockOptions(rest, withoutLinger(defaults)));
}

/**
 * Runs the work, releases the lease, and resolves to the result of the work if the lease was valid to the end. An error of the
 * work takes precedence, unless it only passes on that the lease's signal has aborted.
 */
export async function runWithLease<T>(client: Client, lease: Lease, work: (lease: Lease) => T | PromiseLike<T>): Promise<T> {
  const result = await holdWhile(client, lease, work);
  const outcome = await lease.release().catch(ignore);
  const { ended } = stateOf(lease);
  if (ended !== undefined) throw ended;
  // The lease may have expired a moment before the loss is reported.
  if (outcome === 'already-expired') throw new LostError(lease.name, 'expired');
  if (outcome === 'not-owner') throw new LostError(lease.name, 'taken');
  return result;
}

/** Runs the work. If it fails, or if the lease is lost, releases the lease. */
export async function holdWhile<T>(client: Client, lease: Lease, work: (lease: Lease) => T | PromiseLike<T>): Promise<T> {
  // Not `lease.signal`: to make one costs as much as the lock, and most work doesn't read it.
  const state = stateOf(lease);
  state.watched = true;
  try {
    return await untilLost(client, state, work, lease);
  } catch (error) {
    await lease.release().catch(ignore);
    throw isAbortOf({ aborted: state.ended !== undefined, reason: state.ended }, error) ? endOf(state.ended, error) : error;
  }
}

/** Why the lease ended, with the error that the work failed with for that reason. */
function endOf(reason: unknown, error: unknown): unknown {
  // Not the reason itself with a cause, because that error often has the reason as its own cause.
  if (error === reason || !isLeaseholdError(reason)) return reason;
  return reason.code === 'lost' ? new LostError(reason.lockName, reason.reason, error) : new ClosedError({ lockName: reason.lockName, cause: error });
}

/** Settles as the work does, or rejects with the reason soon after the lease has ended. */
function untilLost<T>({ time, events }: Client, state: LeaseState, work: (lease: Lease) => T | PromiseLike<T>, lease: Lease): Promise<T> {
  return new Promise((resolve, reject) => {
    // Work that listens to the signal gets time to fail with an error of its own.
    const interrupt = (): void => void time.setTimeout(() => reject(state.ended), 0);
    state.onEnd(interrupt);
    const end = (): void => state.offEnd(interrupt);
    const failed = (error: unknown): void => {
      end();
      reject(error);
    };
    try {
      Promise.resolve(events.enter(state.id, () => work(lease))).then((result) => {
        end();
        resolve(result);
      }, failed);
    } catch (error) {
      failed(error);
    }
  });
}
