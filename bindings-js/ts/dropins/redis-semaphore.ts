/**
 * The API of redis-semaphore 5 over a {@link LockManager}: a program changes its import and keeps its code.
 *
 * A mutex has redis-semaphore's key, so both exclude each other. A semaphore has another format, so it is refused until the
 * program says that no process uses redis-semaphore any more (`mixedFleet: false`).
 */

import type { Redis } from 'ioredis';

import { InvalidOptionError, isLeaseholdError, type Lease, type Lock as NativeLock, type LockManager, UnsupportedError } from '../index.js';
import { formatUuid, formatValue, isArray } from '../support/format.js';
import { randomBytes, setTimerRef } from '../support/host.js';
import { BOUNDS, MANAGER_DEFAULTS } from '../support/options.generated.js';
import { HOST, HOST_TIME, type HostTimer } from '../support/timers.js';
import { type Client, managerOf, type SharedManager, withoutMargins } from './managers.js';

/** A client of ioredis. Other objects with these methods are refused when the lock is made. */
type RedisClient = Pick<Redis, 'eval' | 'evalsha' | 'get' | 'set' | 'zrem'> & Partial<Pick<Redis, 'options'>>;

/** Called when a lock is lost while it is refreshed. */
export interface LockLostCallback {
  (this: Lock, err: LostLockError): void;
}

/** The times of a lock, in milliseconds. */
export interface TimeoutOptions {
  /** How long the server keeps the lock unless it is refreshed. 10 ms to 30 days. Default 10,000. */
  lockTimeout?: number;
  /** How long `acquire` waits. Default 10,000. */
  acquireTimeout?: number;
  /** How many times `acquire` tries. Default: no limit. */
  acquireAttemptsLimit?: number;
  /** How long `acquire` waits before it tries again. Without `mixedFleet` there is a queue instead. Default 10. */
  retryInterval?: number;
  /**
   * How often the lock is refreshed; at least at a third of `lockTimeout`. 0 never refreshes it, and then nobody is told of a
   * loss. Default 80 % of `lockTimeout`.
   */
  refreshInterval?: number;
}

/** The options of a lock. */
export interface LockOptions extends TimeoutOptions {
  /** Refused: a lock can't be taken over from another process. */
  externallyAcquiredIdentifier?: string;
  /** Put after the lock's `identifier`, for your logs. */
  identifierSuffix?: string;
  /** Refused: the engine draws the tokens on the server. */
  identifier?: string;
  /** Refused: a lock can't be taken over from another process. */
  acquiredExternally?: true;
  /** By default, a loss is an unhandled rejection with a {@link LostLockError}, which ends a Node process that has no handler. */
  onLockLost?: LockLostCallback;
  /**
   * Whether processes that use redis-semaphore, or other libraries that poll, want the same locks. With `false`, all callers
   * wait in a queue. A semaphore needs `false`. Default `true`.
   */
  mixedFleet?: boolean;
}

/** The defaults of the times. */
export const defaultTimeoutOptions = {
  lockTimeout: 10_000,
  acquireTimeout: 10_000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

/** The lock was lost: it expired, or another client or an operator took it. */
export class LostLockError extends Error {}

/** The lock was not free in time. */
export class TimeoutError extends Error {}

/** The longest wait that the engine takes, in milliseconds. */
const LONGEST_WAIT = BOUNDS.wait[1];
/** How long a server may take to answer, in milliseconds. A shorter wait that gets no answer says nothing about the server. */
const RESPONSE_TIMEOUT = MANAGER_DEFAULTS.responseTimeout;

/** What a lock is called in errors and on the server, and how it is taken. */
interface Target {
  readonly kind: string;
  readonly key: string;
  readonly manager: SharedManager;
  readonly lock: (manager: LockManager) => NativeLock;
  /** Whether it has one holder. Permits that are granted together have one fence. */
  readonly isExclusive: boolean;
  /** Whether an error counts as "not free", as redis-semaphore does with several servers. */
  readonly isQuorum: boolean;
}

abstract class Lock {
  readonly #target: Target;
  readonly #options: Settings;
  #identifier: string | undefined;
  #lock: NativeLock | undefined;
  #lease: Lease | undefined;
  #refreshing: HostTimer | undefined;

  /** @internal */
  constructor(options: Settings, target: Target) {
    this.#target = target;
    this.#options = options;
  }

  /** Names this object in your logs. The value on the server is another one. */
  get identifier(): string {
    this.#identifier ??= [formatUuid(randomBytes(16)), this.#options.identifierSuffix].filter(Boolean).join('-');
    return this.#identifier;
  }

  /** Whether the lock is held. */
  get isAcquired(): boolean {
    return this.#lease?.isHeld ?? false;
  }

  /** Lets a lock that is held end after its `lockTimeout`. */
  stopRefresh(): void {
    if (this.#refreshing === undefined) return;
    HOST.clearTimeout(this.#refreshing);
    this.#refreshing = undefined;
  }

  /**
   * Waits until the lock is free and takes it.
   *
   * @throws {@link TimeoutError} if the wait ends first, `abortSignal.reason` if the signal aborts, and the errors of
   * leasehold (as rejections).
   */
  async acquire(abortSignal?: AbortSignal): Promise<void> {
    if (this.#keep(await this.#take(abortSignal))) return;
    const { kind, key } = this.#target;
    throw new TimeoutError(`Acquire ${kind} ${key} timeout`);
  }

  /** Waits as `acquire` does. Resolves to whether it got the lock. */
  async tryAcquire(abortSignal?: AbortSignal): Promise<boolean> {
    return this.#keep(await this.#take(abortSignal));
  }

  // Few `async` functions, one in the other: each costs as much as a promise and its function.
  #take(signal: AbortSignal | undefined): Promise<Lease | null> {
    return this.#options.mixedFleet ? this.#poll(signal) : this.#queue(signal);
  }

  /** Keeps what was acquired. Returns whether that is a lease. */
  #keep(lease: Lease | null): boolean {
    if (lease === null) return false;
    this.stopRefresh();
    this.#forget();
    this.#lease = lease;
    const { isExclusive, manager: { losses } } = this.#target;
    const lose = (): void => void lease.lost.then(() => this.#lose(lease));
    if (isExclusive) losses.set(lease.fence, lose);
    else lose();
    if (this.#options.refreshInterval > 0) this.#refresh(lease);
    return true;
  }

  /** Gives the lock back. A lock that is not held stays as it is. */
  async release(): Promise<void> {
    const lease = this.#lease;
    this.stopRefresh();
    this.#forget();
    this.#lease = undefined;
    try {
      await lease?.release();
    } catch (error) {
      if (!this.#target.isQuorum) throw error;
    }
  }

  /** Nobody needs to know any more if the lease is lost. */
  #forget(): void {
    if (this.#lease !== undefined) this.#target.manager.losses.delete(this.#lease.fence);
  }

  /** Tries as often as redis-semaphore does. */
  async #poll(signal: AbortSignal | undefined): Promise<Lease | null> {
    const { acquireTimeout, acquireAttemptsLimit, retryInterval } = this.#options;
    const end = HOST_TIME.now() + acquireTimeout;
    for (let attempt = 1; attempt <= acquireAttemptsLimit && HOST_TIME.now() < end; attempt++) {
      signal?.throwIfAborted();
      try {
        const lock = this.#open();
        const lease = await (lock instanceof Promise ? await lock : lock).tryAcquire(signal && { signal });
        if (lease !== null) return lease;
      } catch (error) {
        this.#throwUnlessBusy(error, false);
      }
      await sleep(retryInterval, signal);
    }
    return null;
  }

  /** Waits in the queue, for as long as redis-semaphore would try. */
  async #queue(signal: AbortSignal | undefined): Promise<Lease | null> {
    const { acquireTimeout, acquireAttemptsLimit, retryInterval } = this.#options;
    if (!(acquireTimeout > 0 && acquireAttemptsLimit > 0)) return null;
    const wait = Math.min(acquireTimeout, (acquireAttemptsLimit - 1) * retryInterval);
    try {
      const lock = this.#open();
      // The first try may take as long as the server needs, so a short wait doesn't fail because of a slow answer.
      const lease = await (lock instanceof Promise ? await lock : lock).tryAcquire(signal && { signal });
      if (lease !== null) return lease;
    } catch (error) {
      this.#throwUnlessBusy(error, false);
    }
    if (wait < 1) return null;
    try {
      return await (await this.#open()).acquire({ signal, wait: wait > LONGEST_WAIT ? 'forever' : wait });
    } catch (error) {
      this.#throwUnlessBusy(error, wait < RESPONSE_TIMEOUT);
      return null;
    }
  }

  /** The lock in the manager, the same one at each use. */
  #open(): NativeLock | Promise<NativeLock> {
    if (this.#lock !== undefined) return this.#lock;
    const manager = this.#target.manager.open();
    const { lock } = this.#target;
    return manager instanceof Promise ? manager.then((manager) => (this.#lock = lock(manager))) : (this.#lock = lock(manager));
  }

  /** Throws an error, unless it means that the lock is not free. `isShort` is for a wait in which the server may not answer. */
  #throwUnlessBusy(error: unknown, isShort: boolean): void {
    if (isLeaseholdError(error, 'busy') || ((this.#target.isQuorum || isShort) && isLeaseholdError(error) && error.retryable)) return;
    throw error;
  }

  /** Extends the lease again and again, because a lease that renews itself can't stop that. */
  #refresh(lease: Lease): void {
    const { lockTimeout, refreshInterval } = this.#options;
    // A failed extension is tried again twice before the lease ends. `lost` tells if it was lost.
    this.#refreshing = HOST.setTimeout(() => {
      this.#refresh(lease);
      lease.extend(withoutMargins(lockTimeout)).catch((error) => isLeaseholdError(error, 'lost') && this.#lose(lease));
    }, Math.min(refreshInterval, lockTimeout / 3));
    setTimerRef(this.#refreshing, 'unref');
  }

  #lose(lease: Lease): void {
    if (this.#lease !== lease || this.#refreshing === undefined) return;
    this.stopRefresh();
    const { kind, key } = this.#target;
    const error = new LostLockError(`Lost ${kind} for key ${key}`);
    const { onLockLost } = this.#options;
    if (onLockLost === undefined) throw error;
    onLockLost.call(this, error);
  }
}

/** One holder. The key is `mutex:` and the name, as in redis-semaphore. */
export class Mutex extends Lock {
  constructor(client: RedisClient, key: string, options?: LockOptions);
  /** @internal */
  constructor(client: RedisClient, key: string, options: LockOptions | undefined, permits: Permits);
  constructor(client: RedisClient, key: string, options?: LockOptions, permits?: Permits) {
    const settings = readOptions(options);
    const manager = managerOf([client as Client], settings.mixedFleet);
    super(settings, permits === undefined ? mutex('mutex', key, settings, manager, false) : semaphore(key, settings, manager, permits));
  }
}

/** A limited number of permits. It needs `mixedFleet: false`. */
export class Semaphore extends Mutex {
  constructor(client: RedisClient, key: string, limit: number, options?: LockOptions);
  /** @internal */
  constructor(client: RedisClient, key: string, limit: number, options: LockOptions | undefined, permits: number);
  constructor(client: RedisClient, key: string, limit: number, options?: LockOptions, permits?: number) {
    super(client, key, options, { kind: permits === undefined ? 'semaphore' : 'multi-semaphore', limit, permits: permits ?? 1 });
  }
}

/** A limited number of permits, of which one lock takes several. It needs `mixedFleet: false`. */
export class MultiSemaphore extends Semaphore {
  constructor(client: RedisClient, key: string, limit: number, permits: number, options?: LockOptions) {
    if (typeof permits !== 'number') throw new InvalidOptionError('permits', `is ${formatValue(permits)}: give a number`);
    super(client, key, limit, options, permits);
  }
}

/** One holder, over an odd number of independent servers. */
export class RedlockMutex extends Lock {
  constructor(clients: RedisClient[], key: string, options?: LockOptions) {
    const settings = readOptions(options);
    if (!isArray(clients)) throw new InvalidOptionError('clients', `is ${formatValue(clients)}: give a list of clients`);
    super(settings, mutex('redlock-mutex', key, settings, managerOf([...(clients as Client[])], settings.mixedFleet), true));
  }
}

/** Refused: a quorum has no semaphores. */
export class RedlockSemaphore extends RedlockMutex {
  constructor(clients: RedisClient[], key: string, limit: number, options?: LockOptions) {
    super(refuseQuorum(clients, limit), key, options);
  }
}

/** Refused: a quorum has no semaphores. */
export class RedlockMultiSemaphore extends RedlockSemaphore {
  constructor(clients: RedisClient[], key: string, limit: number, permits: number, options?: LockOptions) {
    super(refuseQuorum(clients, permits), key, limit, options);
  }
}

/** How many permits there are, and how many one lock takes. */
interface Permits {
  readonly kind: string;
  readonly limit: number;
  readonly permits: number;
}

function mutex(kind: string, name: unknown, { lockTimeout }: Settings, manager: SharedManager, isQuorum: boolean): Target {
  const key = `mutex:${readKey(name)}`;
  return { kind, key, manager, isExclusive: true, isQuorum, lock: (manager) => manager.mutex(key, { ttl: lockTimeout, renew: false }) };
}

function semaphore(name: unknown, { lockTimeout, mixedFleet }: Settings, manager: SharedManager, { kind, limit, permits }: Permits): Target {
  const key = `semaphore:${readKey(name)}`;
  if (typeof limit !== 'number') throw new InvalidOptionError('limit', `is ${formatValue(limit)}: give a number`);
  if (mixedFleet) {
    const problem = `\`${key}\` beside processes with redis-semaphore, because its sets have another format and neither side would see the other's permits`;
    throw new UnsupportedError(`${problem}; stop all of them, then set \`mixedFleet: false\``);
  }
  // Not redis-semaphore's own key: a process that still uses it would damage the set, and this side the other's.
  const lock = (manager: LockManager): NativeLock => manager.semaphore(`semaphore:leasehold:${name}`, { limit, permits, ttl: lockTimeout, renew: false });
  return { kind, key, manager, isExclusive: false, isQuorum: false, lock };
}

function refuseQuorum(_clients: RedisClient[], _permits: number): never {
  throw new UnsupportedError('a semaphore over several servers; use `Semaphore` on one server, or `RedlockMutex`');
}

function readKey(name: unknown): string {
  if (typeof name === 'string' && name !== '') return name;
  throw new InvalidOptionError('key', `is ${formatValue(name)}: give the lock a name`);
}

/** The options of a lock, checked. */
interface Settings extends Required<TimeoutOptions> {
  readonly identifierSuffix: string | undefined;
  readonly onLockLost: LockLostCallback | undefined;
  readonly mixedFleet: boolean;
}

const TAKEN_OVER: readonly string[] = ['identifier', 'externallyAcquiredIdentifier', 'acquiredExternally'];
const OPTIONS = ['lockTimeout', 'acquireTimeout', 'acquireAttemptsLimit', 'retryInterval', 'refreshInterval', 'identifierSuffix', 'onLockLost', 'mixedFleet'];

/** Programs make a lock for each use, so this reads each option once. */
function readOptions(given: LockOptions = {}): Settings {
  const options = given ?? {};
  for (const field of Object.keys(options)) {
    const value: unknown = options[field as keyof LockOptions];
    if (value !== undefined) checkOption(field, value);
  }
  const { lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval } = defaultTimeoutOptions;
  const settings: Settings = {
    lockTimeout: options.lockTimeout ?? lockTimeout,
    acquireTimeout: options.acquireTimeout ?? acquireTimeout,
    acquireAttemptsLimit: options.acquireAttemptsLimit ?? acquireAttemptsLimit,
    retryInterval: options.retryInterval ?? retryInterval,
    refreshInterval: options.refreshInterval ?? Math.round((options.lockTimeout ?? lockTimeout) * 0.8),
    identifierSuffix: options.identifierSuffix,
    onLockLost: options.onLockLost,
    mixedFleet: options.mixedFleet ?? true,
  };
  const [least, most, bounds] = BOUNDS.ttl;
  if (!(settings.lockTimeout >= least && settings.lockTimeout <= most)) throw new InvalidOptionError('lockTimeout', `is ${settings.lockTimeout} ms: choose ${bounds}`);
  return settings;
}

function checkOption(field: string, value: unknown): void {
  if (TAKEN_OVER.includes(field)) throw new UnsupportedError(`\`${field}\`, because a lock can't be taken over from another process; acquire, refresh and release it in one process`);
  if (!OPTIONS.includes(field)) throw new InvalidOptionError(field, `is not an option here. The options are ${OPTIONS.join(', ')}`);
  if (field === 'identifierSuffix') return;
  if (field === 'mixedFleet') {
    if (typeof value !== 'boolean') throw new InvalidOptionError('mixedFleet', `is ${formatValue(value)}: give true or false`);
  } else if (field === 'onLockLost') {
    if (typeof value !== 'function') throw new InvalidOptionError('onLockLost', `is ${formatValue(value)}: give a function`);
  } else if (typeof value !== 'number' || !(value >= 0)) {
    throw new InvalidOptionError(field, `is ${formatValue(value)}: give a number, 0 or more`);
  }
}

/** Waits, or rejects with the signal's reason. */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const interrupt = (): void => {
      HOST_TIME.clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = HOST_TIME.setTimeout(() => {
      signal?.removeEventListener('abort', interrupt);
      resolve();
    }, ms);
    if (signal?.aborted === true) interrupt();
    else signal?.addEventListener('abort', interrupt, { once: true });
  });
}
