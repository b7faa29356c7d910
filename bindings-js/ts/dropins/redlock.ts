/** The API of node-redlock 5 over a {@link LockManager}: a program changes its import and keeps its code. */

import { EventEmitter } from 'node:events';

import { InvalidOptionError } from '../index.js';
import { isAbortOf } from '../support/abort.js';
import { formatValue, isArray } from '../support/format.js';
import { ignore } from '../support/ignore.js';
import { Acquirer, checkDuration, counted, listed, mergeSettings, refuseScripts, rejecting, RETRY_DEFAULTS, votesOf } from './attempts.js';
import { type Ended, type Held, heldBy, HeldLock, setHeld } from './held.js';
import type { Client } from './managers.js';

/** How one client voted. */
export type ClientExecutionResult =
  | { client: Client; vote: 'for'; value: number }
  | { client: Client; vote: 'against'; error: Error };

/** How the clients voted in one attempt. If only the majority's answer is known, all clients have that vote. */
export type ExecutionStats = {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<Client>;
  readonly votesAgainst: Map<Client, Error>;
};

/** The attempts of one operation. */
export type ExecutionResult = {
  attempts: ReadonlyArray<Promise<ExecutionStats>>;
};

/** The settings of a {@link Redlock}, or of one call. */
export interface Settings {
  /** By which part of the duration clocks may drift apart. It moves `lock.expiration` earlier. Default 0.01, which is the minimum. */
  readonly driftFactor: number;
  /** How often to try again. -1 means forever. Default 10. */
  readonly retryCount: number;
  /** How long to wait before each further try, in milliseconds. Default 200. */
  readonly retryDelay: number;
  /** The most by which that time varies at random, in milliseconds. Default 100. */
  readonly retryJitter: number;
  /** `using` wants a duration that is 100 ms longer than this. It extends the lock at a third of the duration. Default 500. */
  readonly automaticExtensionThreshold: number;
  /**
   * Whether processes that use node-redlock, or other libraries that poll, want the same locks. With `false`, all callers wait in
   * a queue, for `retryCount` times `retryDelay`. Default `true`.
   */
  readonly mixedFleet?: boolean;
  /** The database of the clients, as in `@sesamecare-oss/redlock`. Another one is refused. */
  readonly db?: number;
}

const DEFAULTS: Required<Omit<Settings, 'db'>> = { ...RETRY_DEFAULTS, automaticExtensionThreshold: 500 };

/** Another client holds one of the resources, or the lock is no longer held. */
export class ResourceLockedError extends Error {
  override readonly message: string;

  constructor(message: string) {
    super(message);
    this.message = message;
    this.name = 'ResourceLockedError';
  }
}

/** An operation failed. Each of its attempts resolves to the votes. */
export class ExecutionError extends Error {
  override readonly message: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  constructor(message: string, attempts: ReadonlyArray<Promise<ExecutionStats>>) {
    super(message);
    this.message = message;
    this.attempts = attempts;
    this.name = 'ExecutionError';
  }
}

/** A lock that was acquired. */
export class Lock extends HeldLock<string> {
  readonly redlock: Redlock;
  readonly resources: string[];
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  constructor(redlock: Redlock, resources: string[], value: string, attempts: ReadonlyArray<Promise<ExecutionStats>>, expiration: number) {
    super(value, expiration);
    this.redlock = redlock;
    this.resources = resources;
    this.attempts = attempts;
  }

  /** See {@link Redlock.release}. */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /** See {@link Redlock.extend}. */
  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }
}

/** Aborts when the lock of `using` is lost. `error` then tells why. */
export type RedlockAbortSignal = AbortSignal & { error?: Error };

/** The second argument of the routine of `using`, as in `@sesamecare-oss/redlock`. */
export interface RedlockUsingContext {
  /** The lock, with its current `expiration`. */
  readonly lock: Lock;
  /** Always 0, because the engine extends the lock and makes no new `Lock`. */
  readonly extensions: number;
}

/** What `using` runs. */
type Routine<T> = (signal: RedlockAbortSignal, context: RedlockUsingContext) => Promise<T>;

/**
 * Locks over one ioredis client, or over an odd number of clients of independent servers or clusters. It emits `error` for
 * each vote against an operation; nobody needs to listen.
 *
 * @throws `invalid-option`, with the field, for clients, settings and durations that can't be used; `unsupported` for custom
 * scripts.
 */
export class Redlock extends EventEmitter {
  readonly clients: Set<Client>;
  readonly settings: Settings;
  readonly #acquirer: Acquirer;

  constructor(clients: Iterable<Client>, settings: Partial<Settings> = {}, scripts: object = {}) {
    super();
    // An `error` event that nobody listens to would end the process.
    this.on('error', () => {});
    refuseScripts(scripts ?? {});
    this.clients = new Set(clients);
    this.settings = this.#merge(settings, DEFAULTS);
    this.#acquirer = new Acquirer([...this.clients], this.settings);
  }

  /** Ends all clients. Locks that are held end with their duration. */
  async quit(): Promise<void> {
    await Promise.all([...this.clients].map((client) => client.quit()));
  }

  /**
   * Takes all resources for `duration` milliseconds, or none of them. It tries again as the settings tell.
   *
   * @throws {@link ExecutionError} if it did not get them, `invalid-option` (as rejections).
   */
  acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock> {
    return this.#acquire(resources, duration, settings, false);
  }

  /**
   * Gives a lock back.
   *
   * @throws {@link ExecutionError} if it was no longer held, or if no server answered: it then ends with its duration.
   * `unsupported` for a `Lock` that another process acquired (as rejections).
   */
  release(lock: Lock, settings?: Partial<Settings>): Promise<ExecutionResult> {
    return rejecting(() => {
      this.#merge(settings);
      const held = heldBy(lock);
      lock.expiration = 0;
      return held.release((ended) => this.#once('release', lock.resources, ended));
    });
  }

  /**
   * Makes a lock end `duration` milliseconds from now. Returns a new `Lock` in place of `existing`.
   *
   * @throws {@link ExecutionError} if it was no longer held, or if no server answered; `invalid-option`, `unsupported` (as
   * rejections).
   */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkDuration('duration', duration);
    const merged = this.#merge(settings);
    const held = heldBy(existing);
    if (existing.expiration < Date.now()) throw new ExecutionError(`can't extend ${listed(existing.resources)}: the lock has ended; acquire it again`, []);
    const { attempts } = await held.extend(duration, merged.driftFactor, (ended) => this.#once('extend', existing.resources, ended));
    existing.expiration = 0;
    return this.#lockOf(held, existing.resources, attempts);
  }

  /**
   * Acquires the resources, runs `routine` and releases them. It extends the lock while the routine runs. If the lock is lost,
   * the signal aborts.
   *
   * @throws The error of the routine, also if the lock was lost; {@link ExecutionError} if the lock could not be acquired, or was
   * lost and the routine does not fail, or only with the abort of its signal (as rejections).
   */
  using<T>(resources: string[], duration: number, settings: Partial<Settings>, routine?: Routine<T>): Promise<T>;
  using<T>(resources: string[], duration: number, routine: Routine<T>): Promise<T>;
  async using<T>(
    resources: string[], duration: number, settingsOrRoutine: Partial<Settings> | Routine<T>, optionalRoutine?: Routine<T>,
  ): Promise<T> {
    checkDuration('duration', duration);
    const [settings, routine] = typeof settingsOrRoutine === 'function' ? [undefined, settingsOrRoutine] : [settingsOrRoutine, optionalRoutine];
    if (typeof routine !== 'function') throw new InvalidOptionError('routine', `is ${formatValue(routine)}: give a function`);
    const merged = this.#merge(settings);
    const { automaticExtensionThreshold: threshold } = merged;
    if (threshold > duration - 100) {
      throw new InvalidOptionError('duration', `is ${duration} ms: give at least 100 ms more than \`automaticExtensionThreshold\`, ${threshold} ms, or lower that`);
    }
    const lock = await this.#acquire(resources, duration, settings, true);
    const controller = new AbortController();
    const signal: RedlockAbortSignal = controller.signal;
    const held = heldBy(lock);
    held.onLost((reason) => {
      signal.error = new ExecutionError(`${listed(resources)}: the lock was lost: ${reason}`, []);
      controller.abort();
    });
    const context = {
      get lock(): Lock {
        const { remaining } = held;
        if (lock.expiration > 0 && remaining > 0) lock.expiration = Math.floor(Date.now() + remaining);
        return lock;
      },
      extensions: 0,
    };
    let result: T;
    try {
      result = await routine(signal, context);
    } catch (error) {
      const released = this.release(lock);
      // A routine that stops because the lock was lost fails as its release does.
      await (isAbortOf(signal, error) ? released : released.catch(ignore));
      throw error;
    }
    await this.release(lock);
    return result;
  }

  #acquire(resources: string[], duration: number, given: Partial<Settings> | undefined, renew: boolean): Promise<Lock> {
    const attempts: Promise<ExecutionStats>[] = [];
    return rejecting(() => {
      const settings = this.#merge(given);
      checkDuration('duration', duration);
      if (!isArray(resources)) throw new InvalidOptionError('resources', `is ${formatValue(resources)}: give a list of names`);
      return this.#acquirer.acquire(resources, duration, settings, renew, {
        ended: (attempt) => attempts.push(Promise.resolve(this.#countVotes(attempt))),
        acquired: (held) => this.#lockOf(held, resources, attempts),
        refused: () => new ExecutionError(`can't acquire ${listed(resources)}: ${counted(attempts.length)} failed, and \`attempts\` has the reasons; try again later, or raise \`retryCount\``, attempts),
      });
    });
  }

  #merge(given: Partial<Settings> | undefined, defaults = this.settings): Settings {
    if (given === undefined || !('db' in given)) return mergeSettings(given, defaults, DEFAULTS);
    const { db, ...rest } = given;
    if (db !== undefined) for (const client of this.clients) {
      const own = databaseOf(client);
      if (db !== own) throw new InvalidOptionError('db', `is ${formatValue(db)}, but a client uses database ${own}: give the client that \`db\`, and leave it out here`);
    }
    return mergeSettings(rest, defaults, DEFAULTS);
  }

  /** Ends the only attempt of an operation on a lock that is held. */
  #once(what: string, resources: readonly string[], ended: Ended): ExecutionResult {
    const attempts = [Promise.resolve(this.#countVotes(ended))];
    if (ended.isDone) return { attempts };
    throw new ExecutionError(`can't ${what} ${listed(resources)}: the lock is no longer held, or the server didn't answer, and \`attempts\` has the reason; acquire it again before you rely on it`, attempts);
  }

  /** The votes of an attempt. Emits each vote against it. */
  #countVotes({ isDone, problem }: Ended): ExecutionStats {
    const votesFor = new Set<Client>();
    const votesAgainst = new Map<Client, Error>();
    const membershipSize = this.clients.size;
    const votes = isDone ? [] : votesOf(problem, membershipSize);
    let at = 0;
    for (const client of this.clients) {
      const vote = votes[at++];
      if (vote === undefined) votesFor.add(client);
      else votesAgainst.set(client, vote === 'busy' ? new ResourceLockedError('another client holds the resource, or the lock is no longer held') : vote);
    }
    for (const error of votesAgainst.values()) this.emit('error', error);
    return { membershipSize, quorumSize: Math.floor(membershipSize / 2) + 1, votesFor, votesAgainst };
  }

  #lockOf(held: Held, resources: string[], attempts: ReadonlyArray<Promise<ExecutionStats>>): Lock {
    return setHeld(new Lock(this, resources, '', attempts, 0), held);
  }
}

/** The database that the client has selected, or will. A cluster has one. */
function databaseOf(client: Client): number {
  const { condition, options } = client as { condition?: { select?: number } | null; options?: { db?: number } };
  return condition?.select ?? options?.db ?? 0;
}

export default Redlock;
