/** The API of node-redlock 4 over a {@link LockManager}: a program changes its import and keeps its code. */

import { EventEmitter } from 'node:events';

import { InvalidOptionError, UnsupportedError } from '../index.js';
import { formatValue, isArray } from '../support/format.js';
import { Acquirer, checkDuration, counted, listed, mergeSettings, refuseScripts, rejecting, RETRY_DEFAULTS, type RetrySettings, votesOf } from './attempts.js';
import { bluebird } from './bluebird/own.js';
import { type Ended, type Held, heldBy, HeldLock, setHeld } from './held.js';
import type { Client } from './managers.js';
import { type Answer, type Callback, type Disposer, Promises } from './promises.js';

/** A client of ioredis. The original has this name for it. */
export type CompatibleRedisClient = Client;

/** How often to try to take a lock. */
export interface LockOptions {
  /** How often to try again. -1 means forever. Default 10. */
  readonly retryCount?: number;
  /** How long to wait before each further try, in milliseconds. Default 200. */
  readonly retryDelay?: number;
  /** The most by which that time varies at random, in milliseconds. Default 100. */
  readonly retryJitter?: number;
  /** By which part of the TTL clocks may drift apart. It moves `lock.expiration` earlier. Default 0.01, which is the minimum. */
  readonly driftFactor?: number;
}

/** The options of a {@link Redlock}. */
export interface Options extends LockOptions {
  /**
   * Whether processes that use node-redlock, or other libraries that poll, want the same locks. With `false`, all callers wait in
   * a queue, for `retryCount` times `retryDelay`. Default `true`.
   */
  readonly mixedFleet?: boolean;
}

/** The options that replace the scripts of the original. */
const SCRIPTS = ['lockScript', 'unlockScript', 'extendScript'];

/** The lock could not be taken, extended or released. */
export class LockError extends Error {
  override readonly name = 'LockError';
  /** How many attempts there were. 0 if the lock had ended before, undefined if it could not be released. */
  readonly attempts: number | undefined;

  constructor(message = 'the lock could not be taken', attempts?: number, options?: ErrorOptions) {
    super(message, options);
    this.attempts = attempts;
  }
}

/** A lock that was acquired. */
export class Lock extends HeldLock<string | null> {
  readonly redlock: Redlock;
  readonly resource: string[];
  /** How many attempts it took to get the lock. */
  readonly attempts: number;
  /** How many attempts were left. */
  readonly attemptsRemaining: number | undefined;

  constructor(redlock: Redlock, resource: string[], value: string | null, expiration: number, attempts: number, attemptsRemaining?: number) {
    super(value, expiration);
    this.redlock = redlock;
    this.resource = resource;
    this.attempts = attempts;
    this.attemptsRemaining = attemptsRemaining;
  }

  /** See {@link Redlock.unlock}. */
  unlock(callback?: Callback<void>): Answer<void> {
    return this.redlock.unlock(this, callback);
  }

  /** See {@link Redlock.extend}. */
  extend(ttl: number, callback?: Callback<Lock>): Answer<Lock> {
    return this.redlock.extend(this, ttl, callback);
  }
}

const promises = new Promises(bluebird());

function heldOf(lock: Lock): Held {
  const held = heldBy(lock);
  const { resource } = lock;
  if (resource !== held.resources && listed([resource].flat()) !== listed(held.resources)) throw new UnsupportedError('a `Lock` whose `resource` was changed; put the old value back');
  return held;
}

/**
 * Locks over one ioredis client, or over an odd number of clients of independent servers or clusters. It emits `clientError`
 * for each error of a client.
 *
 * Each call returns a promise of Bluebird if the program has Bluebird, and calls the callback if there is one.
 *
 * @throws `invalid-option`, with the field, for clients, options and TTLs that can't be used; `unsupported` for custom scripts.
 */
export class Redlock extends EventEmitter {
  static readonly Lock = Lock;
  static readonly LockError = LockError;

  readonly servers: readonly CompatibleRedisClient[];
  driftFactor: number;
  retryCount: number;
  retryDelay: number;
  retryJitter: number;
  readonly #mixedFleet: boolean;
  readonly #acquirer: Acquirer;

  constructor(clients: readonly CompatibleRedisClient[], options: Options = {}) {
    super();
    const given = Object.entries(options ?? {});
    refuseScripts(Object.fromEntries(given.filter(([field]) => SCRIPTS.includes(field))));
    if (!isArray(clients)) throw new InvalidOptionError('clients', `is ${formatValue(clients)}: give a list of clients`);
    const settings = mergeSettings(Object.fromEntries(given.filter(([field]) => !SCRIPTS.includes(field))), RETRY_DEFAULTS, RETRY_DEFAULTS);
    this.servers = clients;
    this.driftFactor = settings.driftFactor;
    this.retryCount = settings.retryCount;
    this.retryDelay = settings.retryDelay;
    this.retryJitter = settings.retryJitter;
    this.#mixedFleet = settings.mixedFleet ?? true;
    this.#acquirer = new Acquirer([...clients], settings);
  }

  /** The settings of the next call. As in the original, the program may have changed them. */
  get #settings(): RetrySettings {
    const { driftFactor, retryCount, retryDelay, retryJitter } = this;
    return { driftFactor, retryCount, retryDelay, retryJitter, mixedFleet: this.#mixedFleet };
  }

  /** Ends all clients. Locks that are held end with their TTL. */
  quit(callback?: Callback<unknown[]>): Answer<unknown[]> {
    return promises.answer(Promise.all(this.servers.map((client) => client.quit())), callback);
  }

  /**
   * Takes all resources for `ttl` milliseconds, or none of them. It tries again as the options tell.
   *
   * @throws {@link LockError} if it did not get them, `invalid-option` (as rejections).
   */
  lock(resource: string | string[], ttl: number, callback?: Callback<Lock>): Answer<Lock> {
    return promises.answer(this.#lock(resource, ttl, undefined), callback);
  }

  /** See {@link Redlock.lock}. */
  acquire(resource: string | string[], ttl: number, callback?: Callback<Lock>): Answer<Lock> {
    return this.lock(resource, ttl, callback);
  }

  /** {@link Redlock.lock} with other options than those of the instance. As in the original, a callback may take their place. */
  lockWithOptions(resource: string | string[], ttl: number, options: LockOptions, callback?: Callback<Lock>): Answer<Lock>;
  lockWithOptions(resource: string | string[], ttl: number, callback: Callback<Lock>): Answer<Lock>;
  lockWithOptions(resource: string | string[], ttl: number, options: LockOptions | Callback<Lock>, callback?: Callback<Lock>): Answer<Lock> {
    if (typeof options === 'function') return this.lock(resource, ttl, callback ?? options);
    return promises.answer(this.#lock(resource, ttl, options), callback);
  }

  /** See {@link Redlock.lockWithOptions}. */
  acquireWithOptions(resource: string | string[], ttl: number, options: LockOptions, callback?: Callback<Lock>): Answer<Lock>;
  acquireWithOptions(resource: string | string[], ttl: number, callback: Callback<Lock>): Answer<Lock>;
  acquireWithOptions(resource: string | string[], ttl: number, options: LockOptions | Callback<Lock>, callback?: Callback<Lock>): Answer<Lock> {
    return this.lockWithOptions(resource, ttl, options as LockOptions, callback);
  }

  /**
   * Makes a disposer for Bluebird's `using`, which takes the lock, and releases it after the function.
   *
   * @param errorHandler Gets the error if the lock can't be released. Without it, the error is ignored.
   * @throws `unsupported` if the program has no Bluebird.
   */
  disposer(resource: string | string[], ttl: number, errorHandler?: Callback<void>): Disposer<Lock> {
    return promises.disposer(() => this.#lock(resource, ttl, undefined), (lock) => this.#unlock(lock).catch((error) => errorHandler?.(error)));
  }

  /**
   * Gives a lock back.
   *
   * @throws {@link LockError} if it was no longer held, or if no server answered: it then ends with its TTL. `unsupported` for a
   * `Lock` that another process acquired (as rejections).
   */
  unlock(lock: Lock, callback?: Callback<void>): Answer<void> {
    return promises.answer(this.#unlock(lock), callback);
  }

  /** See {@link Redlock.unlock}. */
  release(lock: Lock, callback?: Callback<void>): Answer<void> {
    return this.unlock(lock, callback);
  }

  /**
   * Makes a lock end `ttl` milliseconds from now. Resolves to the same `Lock`.
   *
   * @throws {@link LockError} if it was no longer held, or if no server answered; `invalid-option`, `unsupported` (as
   * rejections).
   */
  extend(lock: Lock, ttl: number, callback?: Callback<Lock>): Answer<Lock> {
    return promises.answer(this.#extend(lock, ttl), callback);
  }

  #lock(given: string | string[], ttl: number, options: LockOptions | undefined): Promise<Lock> {
    return rejecting(() => {
      const settings = mergeSettings(options, this.#settings, RETRY_DEFAULTS);
      checkDuration('ttl', ttl);
      const resource = isArray(given) ? (given as string[]) : [given as string];
      let attempts = 0;
      return this.#acquirer.acquire(resource, ttl, settings, false, {
        ended: (attempt) => {
          this.#tell(attempt);
          return ++attempts;
        },
        acquired: (held) => setHeld(new Lock(this, resource, null, 0, attempts, settings.retryCount - attempts), held),
        refused: () => new LockError(`can't take ${listed(resource)}: ${counted(attempts)} failed; try again later, or raise \`retryCount\``, attempts),
      });
    });
  }

  #unlock(lock: Lock): Promise<void> {
    return rejecting(() => {
      lock.expiration = 0;
      const held = heldOf(lock);
      return held.release((ended) => {
        this.#tell(ended);
        if (!ended.isDone) throw new LockError(`can't give ${listed(held.resources)} back: the lock is no longer held, or the server didn't answer`, undefined, { cause: ended.problem });
      });
    });
  }

  async #extend(lock: Lock, ttl: number): Promise<Lock> {
    if (lock.expiration < Date.now()) throw new LockError(`can't extend ${listed(lock.resource)}: the lock has ended; take it again`, 0);
    checkDuration('ttl', ttl);
    const held = heldOf(lock);
    await held.extend(ttl, this.driftFactor, (ended) => {
      this.#tell(ended);
      if (!ended.isDone) throw new LockError(`can't extend ${listed(held.resources)}: the lock is no longer held, or the server didn't answer; take it again before you rely on it`, 1, { cause: ended.problem });
    });
    return setHeld(lock, held);
  }

  /** Emits the errors of the clients. A lock that is not free is no error. */
  #tell({ isDone, problem }: Ended): void {
    if (isDone || problem === undefined) return;
    for (const vote of votesOf(problem, this.servers.length)) if (vote instanceof Error) this.emit('clientError', vote);
  }
}

export default Redlock;
