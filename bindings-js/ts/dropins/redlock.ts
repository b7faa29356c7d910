/**
 * The API of node-redlock 5 over a {@link LockManager}: a program changes its import and keeps its code.
 *
 * While processes with node-redlock run (`mixedFleet`, the default), `acquire` tries again as often as node-redlock does, so
 * both get their share. Without them, one `acquire` of the manager waits in the queue for as long.
 */

import { EventEmitter } from 'node:events';

import { InvalidOptionError, isLeaseholdError, type Lease, type Lock as NativeLock, type LockManager, UnsupportedError } from '../index.js';
import { isAbortOf } from '../support/abort.js';
import { formatValue, isArray } from '../support/format.js';
import { setTimerRef } from '../support/host.js';
import { ignore } from '../support/ignore.js';
import { BOUNDS } from '../support/options.generated.js';
import { HOST_TIME, type Timer } from '../support/timers.js';
import { type Client, managerOf, type SharedManager, withoutMargins } from './managers.js';

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
  /** Which part of the duration clocks may drift apart. It moves `lock.expiration` earlier. Default 0.01, which is also the least. */
  readonly driftFactor: number;
  /** How often to try again; -1 for ever. Default 10. */
  readonly retryCount: number;
  /** How long to wait before each further try, in milliseconds. Default 200. */
  readonly retryDelay: number;
  /** By how much that time varies at random, in milliseconds. Default 100. */
  readonly retryJitter: number;
  /** `using` wants a duration that is 100 ms longer than this. It extends the lock at a third of the duration. Default 500. */
  readonly automaticExtensionThreshold: number;
  /**
   * Whether processes that use node-redlock, or other libraries that poll, want the same locks. `false` makes all waiters
   * stand in a queue, for `retryCount` times `retryDelay`. Default `true`.
   */
  readonly mixedFleet?: boolean;
}

const DEFAULTS: Required<Settings> = {
  driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 100, automaticExtensionThreshold: 500, mixedFleet: true,
};

/** The longest wait that the engine takes, in milliseconds. */
const LONGEST_WAIT = BOUNDS.wait[1];

/** The codes of errors that another try can't mend. */
const HOPELESS: readonly string[] = ['invalid-option', 'unsupported', 'closed'];

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

let setHeld: (lock: Lock, held: Held) => Lock;
let heldBy: (lock: Lock) => Held;

/** A lock that was acquired. */
export class Lock {
  static {
    setHeld = (lock, held) => {
      lock.#held = held;
      return lock;
    };
    heldBy = (lock) => {
      // A `Lock` of the original, or one that was made by hand, has none.
      const held = #held in lock ? lock.#held : undefined;
      if (held === undefined) throw new UnsupportedError('a `Lock` that this process did not acquire; release and extend it where it was acquired');
      return held;
    };
  }

  /** Not a `WeakMap`, which costs the garbage collector more than the lock. */
  #held: Held | undefined;
  readonly redlock: Redlock;
  readonly resources: string[];
  /** The lock's fencing token, as text: send it along with each write. The value on the server is another one. */
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** When the lock ends unless it is extended, as `Date.now()` tells it. 0 once it was released or extended. */
  expiration: number;

  constructor(redlock: Redlock, resources: string[], value: string, attempts: ReadonlyArray<Promise<ExecutionStats>>, expiration: number) {
    this.redlock = redlock;
    this.resources = resources;
    this.value = value;
    this.attempts = attempts;
    this.expiration = expiration;
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

  constructor(clients: Iterable<Client>, settings: Partial<Settings> = {}, scripts: object = {}) {
    super();
    // An `error` event that nobody listens to would end the process.
    this.on('error', () => {});
    const [script] = Object.entries(scripts ?? {}).find(([, given]) => given !== undefined) ?? [];
    if (script !== undefined) throw new UnsupportedError(`\`${script}\`, because leasehold has scripts of its own; leave it out`);
    this.clients = new Set(clients);
    this.settings = mergeSettings(settings, DEFAULTS);
    this.#openManager(this.settings);
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
  async release(lock: Lock, settings?: Partial<Settings>): Promise<ExecutionResult> {
    mergeSettings(settings, this.settings);
    const held = heldBy(lock);
    lock.expiration = 0;
    let isDone = false;
    let problem: unknown;
    try {
      isDone = (await held.release()) === 'released';
      held.isReleased = true;
    } catch (error) {
      problem = passOnHopeless(error);
    }
    return this.#once('release', lock.resources, isDone, problem);
  }

  /**
   * Makes a lock end `duration` milliseconds from now. Returns a new `Lock` in place of `existing`.
   *
   * @throws {@link ExecutionError} if it was no longer held, or if no server answered; `invalid-option`, `unsupported` (as
   * rejections).
   */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkDuration(duration);
    const merged = mergeSettings(settings, this.settings);
    const held = heldBy(existing);
    const start = Date.now();
    if (existing.expiration < start) throw new ExecutionError(`can't extend ${listed(existing.resources)}: the lock has ended; acquire it again`, []);
    let isDone = false;
    let problem: unknown;
    try {
      isDone = await held.extend(duration);
    } catch (error) {
      problem = passOnHopeless(error);
    }
    const { attempts } = this.#once('extend', existing.resources, isDone, problem);
    existing.expiration = 0;
    return this.#lockOf(held, existing.resources, attempts, expirationOf(start, duration, merged, held));
  }

  /**
   * Acquires the resources, runs `routine` and releases them. It extends the lock while the routine runs. If the lock is lost,
   * the signal aborts.
   *
   * @throws The error of the routine, also if the lock was lost; {@link ExecutionError} if the lock could not be acquired, or was
   * lost and the routine does not fail, or only with the abort of its signal (as rejections).
   */
  using<T>(resources: string[], duration: number, settings: Partial<Settings>, routine?: (signal: RedlockAbortSignal) => Promise<T>): Promise<T>;
  using<T>(resources: string[], duration: number, routine: (signal: RedlockAbortSignal) => Promise<T>): Promise<T>;
  async using<T>(
    resources: string[], duration: number, settingsOrRoutine: Partial<Settings> | ((signal: RedlockAbortSignal) => Promise<T>),
    optionalRoutine?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T> {
    checkDuration(duration);
    const [settings, routine] = typeof settingsOrRoutine === 'function' ? [undefined, settingsOrRoutine] : [settingsOrRoutine, optionalRoutine];
    if (typeof routine !== 'function') throw new InvalidOptionError('routine', `is ${formatValue(routine)}: give a function`);
    const merged = mergeSettings(settings, this.settings);
    const { automaticExtensionThreshold: threshold } = merged;
    if (threshold > duration - 100) {
      throw new InvalidOptionError('duration', `is ${duration} ms: give at least 100 ms more than \`automaticExtensionThreshold\`, ${threshold} ms, or lower that`);
    }
    const lock = await this.#acquire(resources, duration, settings, true);
    const controller = new AbortController();
    const signal: RedlockAbortSignal = controller.signal;
    heldBy(lock).onLost((reason) => {
      signal.error = new ExecutionError(`${listed(resources)}: the lock was lost: ${reason}`, []);
      controller.abort();
    });
    let result: T;
    try {
      result = await routine(signal);
    } catch (error) {
      const released = this.release(lock);
      // A routine that stops because the lock was lost fails as its release does.
      await (isAbortOf(signal, error) ? released : released.catch(ignore));
      throw error;
    }
    await this.release(lock);
    return result;
  }

  // Few `async` functions, one in the other: each costs as much as a promise and its function.
  async #acquire(resources: string[], duration: number, given: Partial<Settings> | undefined, renew: boolean): Promise<Lock> {
    const settings = mergeSettings(given, this.settings);
    checkDuration(duration);
    if (!isArray(resources)) throw new InvalidOptionError('resources', `is ${formatValue(resources)}: give a list of names`);
    const { mixedFleet, retryCount } = settings;
    const most = mixedFleet === false ? 1 : retryCount === -1 ? Infinity : retryCount + 1;
    const attempts: Promise<ExecutionStats>[] = [];
    for (;;) {
      let lease: Lease | null = null;
      let problem: unknown;
      try {
        const manager = this.#openManager(settings);
        const lock = this.#lockFor(manager instanceof Promise ? await manager : manager, resources, duration, renew);
        // The first try may take as long as the server needs, so a short wait doesn't fail because of a slow answer.
        lease = await lock.tryAcquire();
        if (lease === null && mixedFleet === false && retryCount !== 0) lease = await lock.acquire({ wait: waitOf(settings) });
      } catch (error) {
        problem = passOnHopeless(error);
      }
      attempts.push(this.#statsOf(lease !== null, problem));
      if (lease !== null) {
        const held = new Held(lease);
        return this.#lockOf(held, resources, attempts, expirationOf(Date.now(), duration, settings, held));
      }
      if (attempts.length >= most) {
        throw new ExecutionError(`can't acquire ${listed(resources)}: ${counted(attempts.length)} failed, and \`attempts\` has the reasons; try again later, or raise \`retryCount\``, attempts);
      }
      await pause(settings);
    }
  }

  #lockFor(manager: LockManager, resources: readonly string[], ttl: number, renew: boolean): NativeLock {
    const options = { ttl, renew };
    const [name] = resources;
    if (name !== undefined && (resources.length === 1 || resources.every((other) => other === name))) return manager.mutex(name, options);
    return manager.multi([...new Set(resources)], options);
  }

  /** Ends the only attempt of an operation on a lock that is held. The engine sends its command again if that is safe. */
  #once(what: string, resources: readonly string[], isDone: boolean, problem: unknown): ExecutionResult {
    const stats = this.#statsOf(isDone, problem);
    if (isDone) return { attempts: [stats] };
    throw new ExecutionError(`can't ${what} ${listed(resources)}: the lock is no longer held, or the server didn't answer, and \`attempts\` has the reason; acquire it again before you rely on it`, [stats]);
  }

  #statsOf(isDone: boolean, problem: unknown): Promise<ExecutionStats> {
    return Promise.resolve(this.#countVotes(isDone, problem));
  }

  /** The votes of an attempt. Emits each vote against it. */
  #countVotes(isDone: boolean, problem: unknown): ExecutionStats {
    const votesFor = new Set<Client>();
    const votesAgainst = new Map<Client, Error>();
    let at = 0;
    for (const client of this.clients) {
      const error = isDone ? undefined : errorOfVote(problem, at++);
      if (error === undefined) votesFor.add(client);
      else votesAgainst.set(client, error);
    }
    if (!isDone) for (const error of votesAgainst.values()) this.emit('error', error);
    const membershipSize = this.clients.size;
    return { membershipSize, quorumSize: Math.floor(membershipSize / 2) + 1, votesFor, votesAgainst };
  }

  #lockOf(held: Held, resources: string[], attempts: ReadonlyArray<Promise<ExecutionStats>>, expiration: number): Lock {
    return setHeld(new Lock(this, resources, String(held.fence), attempts, expiration), held);
  }

  #openManager({ mixedFleet = true }: Settings): ReturnType<SharedManager['open']> {
    return managerOf([...this.clients], mixedFleet).open();
  }
}

export default Redlock;

/** What a `Lock` holds. */
class Held {
  readonly #lease: Lease;
  #end: Timer | undefined;
  /** Whether a release has ended. */
  isReleased = false;

  constructor(lease: Lease) {
    this.#lease = lease;
  }

  get fence(): number {
    return this.#lease.fence;
  }

  get remaining(): number {
    return this.#lease.remaining;
  }

  onLost(listener: (reason: string) => void): void {
    void this.#lease.lost.then(listener);
  }

  /** Undefined if it was released before. */
  release(): ReturnType<Lease['release']> | undefined {
    if (this.#end !== undefined) HOST_TIME.clearTimeout(this.#end);
    return this.isReleased ? undefined : this.#lease.release();
  }

  /** Makes the lock end after `duration`. Resolves to `false` if it was no longer held. */
  async extend(duration: number): Promise<boolean> {
    if (this.isReleased) return false;
    HOST_TIME.clearTimeout(this.#end);
    const end = HOST_TIME.now() + duration;
    const isShorter = this.remaining > duration;
    if (isShorter && await this.#shorten(duration)) return true;
    await this.#lease.extend(withoutMargins(duration));
    if (isShorter) {
      // The server keeps the lease for longer, so it is released in time.
      this.#end = HOST_TIME.setTimeout(() => void this.release()?.then(() => (this.isReleased = true), ignore), end - HOST_TIME.now());
      setTimerRef(this.#end, 'unref');
    }
    return true;
  }

  /** Makes the lock shorter on the server too. Resolves to `false` for several names and several clients. */
  async #shorten(duration: number): Promise<boolean> {
    try {
      await this.#lease.shorten(withoutMargins(duration));
      return true;
    } catch (error) {
      if (isLeaseholdError(error, 'unsupported')) return false;
      throw error;
    }
  }
}

/** How long one `acquire` waits in the queue. */
function waitOf({ retryCount, retryDelay }: Settings): number | 'forever' {
  const wait = Math.max(1, retryCount * retryDelay);
  return retryCount < 0 || wait > LONGEST_WAIT ? 'forever' : wait;
}

/** Throws what another try can't mend: a caller's mistake, or a broken engine. */
function passOnHopeless(error: unknown): unknown {
  if (isLeaseholdError(error) && HOPELESS.includes(error.code)) throw error;
  return error;
}

/** Why the client at this position did not agree; undefined if it agreed. */
function errorOfVote(problem: unknown, at: number): Error | undefined {
  const vote = (isLeaseholdError(problem, 'busy') || isLeaseholdError(problem, 'unreachable')) ? problem.votes?.[at] : undefined;
  if (vote?.answer === 'agreed') return undefined;
  if (problem === undefined || vote?.answer === 'busy' || (vote === undefined && isLeaseholdError(problem, 'busy'))) {
    return new ResourceLockedError('another client holds the resource, or the lock is no longer held');
  }
  if (vote !== undefined) return new Error(`${vote.server}: ${vote.problem ?? vote.answer ?? 'the outcome was certain before it answered'}`, { cause: problem });
  // node-redlock gives the error of ioredis.
  const { cause } = problem as Error;
  return cause instanceof Error ? cause : (problem as Error);
}

/** When a lock that was taken or extended at `start` ends: as node-redlock computes it, but not after the lease. */
function expirationOf(start: number, duration: number, { driftFactor }: Settings, held: Held): number {
  const drift = Math.round(driftFactor * duration) + 2;
  return Math.min(start + duration - drift, Math.floor(Date.now() + held.remaining));
}

function pause({ retryDelay, retryJitter }: Settings): Promise<void> {
  const ms = retryDelay + Math.floor((2 * Math.random() - 1) * retryJitter);
  return new Promise((resolve) => HOST_TIME.setTimeout(resolve, Math.max(0, ms)));
}

function mergeSettings(given: Partial<Settings> | undefined, defaults: Settings): Settings {
  if (given === undefined) return defaults;
  const merged: Record<string, unknown> = { ...defaults };
  for (const [field, value] of Object.entries(given)) {
    if (!Object.hasOwn(DEFAULTS, field)) throw new InvalidOptionError(field, `is not a setting. The settings are ${Object.keys(DEFAULTS).join(', ')}`);
    if (value === undefined) continue;
    const wanted = typeof DEFAULTS[field as keyof Settings];
    if (typeof value !== wanted || Number.isNaN(value)) throw new InvalidOptionError(field, `is ${formatValue(value)}: give a ${wanted}`);
    merged[field] = value;
  }
  return merged as unknown as Settings;
}

function checkDuration(duration: unknown): void {
  if (typeof duration !== 'number' || !Number.isInteger(duration)) throw new InvalidOptionError('duration', `is ${formatValue(duration)}: give a whole number of milliseconds`);
  const [least, most, bounds] = BOUNDS.ttl;
  if (duration < least || duration > most) throw new InvalidOptionError('duration', `is ${duration} ms: choose ${bounds}`);
}

/** Resources, for messages. */
function listed(resources: readonly string[]): string {
  return resources.map((name) => `\`${name}\``).join(', ');
}

function counted(attempts: number): string {
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`;
}
