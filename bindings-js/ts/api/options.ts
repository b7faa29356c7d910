/** The options of managers, locks and acquires: their types, defaults and bounds. */

import type { AcquireSettings, Config, ReplicaSettings } from '../engine/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { formatValue, isArray } from '../support/format.js';
import { defaultLabel } from '../support/host.js';
import { BOUNDS, LOCK, LOCK_DEFAULTS, MANAGER, MANAGER_DEFAULTS, MULTI, QUORUM, SEMAPHORE } from '../support/options.generated.js';
import {
  type Duration, readBoolean, readCount, readDuration, readFields, readGuarded, readLabel, readName, readPrefix, readSignal,
} from './validate.js';

/** The options of a lock. They override the manager's options; the options of a call override both. */
export interface LockOptions {
  /**
   * How long the server keeps the lease unless it is renewed. A crashed holder blocks the others for this long.
   * 10 ms to 30 days. Default `'30s'`.
   */
  readonly ttl?: Duration | undefined;
  /** Renews the lease at a third of `ttl` while it is held. `false` makes a fixed lease. Default `true`. */
  readonly renew?: boolean | undefined;
  /** A renewed lease is lost after this time, with the reason `max-hold`. 10 ms to 30 days. Default: no limit. */
  readonly maxHold?: Duration | undefined;
  /**
   * How long to wait for the lock: 1 ms to 30 days, or `'forever'`. Default `'60s'`. That is longer than the default `ttl`,
   * so a waiter outlasts a crashed holder's lease. `tryAcquire` does not wait for the lock: there, `wait` limits how
   * long the server may take to answer.
   */
  readonly wait?: Duration | 'forever' | undefined;
  /**
   * Returns a lease only after that many replicas have acknowledged it, so that a failover to one of them does not lose it.
   * If fewer replicas do so within `timeout`, the lease is given back and the call rejects with `not-replicated`. This comes
   * after the `wait`, and takes at most `timeout` and one `responseTimeout`. Releases and renewals don't wait for replicas.
   *
   * Each acquire opens a connection of its own for this, even if the lock is handed over inside this client. So it needs an
   * ioredis, node-redis or GLIDE client. A custom connection, a quorum and several names reject with `unsupported`.
   * Default: don't wait for replicas.
   */
  readonly waitForReplicas?: ReplicaOptions | undefined;
  /**
   * How long the client keeps the lease after you release it, while no other client asks for the lock: 1 ms to 60 s.
   * Default: it gives the lease back at once.
   *
   * The next acquire in this process then gets the lock without a round trip, with the next fencing token. A client that
   * waits for the lock, or tries to get it, ends this at once. If your process crashes in that time, others wait for the
   * lock until its `ttl` is over, as if you held it.
   *
   * Only for mutexes and read-write locks, on a connection that carries messages. Other kinds don't have it. The call
   * rejects with `invalid-option` under `mixedFleet`, and with `unsupported` without messages and in a quorum.
   */
  readonly linger?: Duration | undefined;
  /**
   * A name for the lease, such as the job that needs it: at most 128 bytes without control characters. Default: nothing.
   * `inspect` shows it, for holders and for waiters. It costs nothing: it stays in this process, and an inspect asks for it. The manager's `label` is for all its leases together. A quorum has no labels.
   */
  readonly label?: string | undefined;
}

/** The options of one acquire. */
export interface AcquireOptions extends LockOptions {
  /** Ends the wait: the call then rejects with `signal.reason`. It has no effect once the call has returned a lease. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The options of a {@link LockManager}. `ttl`, `renew`, `maxHold`, `wait` and `linger` are defaults for its locks. All clients of one
 * fleet should use the same values for the others.
 */
export interface LockManagerOptions extends Omit<LockOptions, 'waitForReplicas' | 'label'> {
  /** Put before every lock name. It can't begin with `leasehold:`, and a brace must be part of a whole hash tag. Default: empty. */
  readonly prefix?: string | undefined;
  /**
   * How many times this client hands a lock over locally while another client waits, for 1 s at most. Smaller is fairer
   * between clients, larger is faster. 0 to 1023. Default 32.
   */
  readonly localHandoffs?: number | undefined;
  /**
   * How long the answer to one command may take. After that, the command counts as maybe applied. 10 ms to 60 s.
   * Default `'2s'`.
   */
  readonly responseTimeout?: Duration | undefined;
  /**
   * How long a grant is kept for a waiter, and so how long a dead waiter can delay the others. Waiters send heartbeats at a
   * third of it. 100 ms to 60 s. Default `'3s'`.
   */
  readonly claimWindow?: Duration | undefined;
  /** Makes all waiters poll, so that clients of other libraries compete on equal terms. This is slower. Default `false`. */
  readonly mixedFleet?: boolean | undefined;
  /**
   * A name for this manager: at most 128 bytes without control characters. `inspect` shows it, and so does the `busy` error
   * of another manager. The manager writes it to the server when it first waits, and when it has held a lease for a second. An empty
   * label tells nobody. Default: `<host>/<process id>`, or the runtime's name where it does not tell these. A quorum has no labels.
   */
  readonly label?: string | undefined;
}

/** The options of {@link LockManager.quorum}. */
export interface QuorumOptions extends LockManagerOptions {
  /**
   * How long one server may take to answer a command. A slower server counts as down. 10 ms to 60 s. Default `'100ms'`,
   * which suits a LAN. `responseTimeout` applies only to the first question to each server.
   */
  readonly nodeTimeout?: Duration | undefined;
  /**
   * The engine of quorums, the default export of `leasehold/quorum.wasm`: a `WebAssembly.Module`. Needed in Cloudflare Workers, so that
   * a Worker without a quorum does not upload it. Other hosts ignore it.
   */
  // Not every program has the types of WebAssembly.
  readonly wasm?: object | undefined;
}

/** The options of {@link LockManager.semaphore}. */
export interface SemaphoreOptions extends LockOptions {
  /**
   * How many permits there are: 1 to 1,000,000. All callers should use the same limit. The limit of the latest acquire counts.
   * A lower limit takes nothing from current holders. A request for more than the new limit is granted when everything else
   * is free.
   */
  readonly limit: number;
  /** How many permits one acquire takes: 1 to `limit`. Default 1. */
  readonly permits?: number | undefined;
}

/** The options of {@link LockManager.multi}. */
export interface MultiOptions extends Omit<LockOptions, 'waitForReplicas'> {
  /**
   * Rejects with `cross-slot` if no single script can take the names, because they are in different slots of a cluster.
   * Names in one slot are always tried with one script. Default `false`.
   */
  readonly oneScript?: boolean | undefined;
}

/** The options of {@link LockManager.forceRelease}. */
export interface ForceReleaseOptions {
  /**
   * Deletes the key even if it has no TTL. Such a key is another library's, or it is data that is no lock. You lose that data.
   * Default `false`.
   */
  readonly foreign?: boolean | undefined;
}

/** How many replicas must acknowledge a lease, and how long to wait for them. */
export interface ReplicaOptions {
  /** How many replicas must acknowledge the lease. At least 1. */
  readonly min: number;
  /** How long to wait for the replicas: 1 ms to 60 s. */
  readonly timeout: Duration;
}

/** Some of the options in an interface. So an option of the table that an interface lacks does not compile. */
type Fields<Options> = readonly (keyof Options)[];

const ACQUIRE = [...LOCK, 'signal'] as const;
const MOST_NAMES = 256;
const { ttl, renew, wait } = LOCK_DEFAULTS;
const SETTINGS: AcquireSettings = { ttl, renew, maxHold: undefined, wait, replicas: undefined, linger: undefined, label: undefined };

/** Checks a manager's options and splits them into the engine's options, the defaults of its locks, and what makes its label. */
export function readManagerOptions(options: unknown): { config: Config; settings: AcquireSettings; label: () => string } {
  const given = readFields(options, MANAGER satisfies Fields<LockManagerOptions>);
  if (given.label === undefined) return { ...managerOptions(given), label: defaultLabel };
  const label = readLabel(given.label);
  return { ...managerOptions(given), label: () => label };
}

/** Checks the options of a quorum's manager. */
export function readQuorumOptions(options: unknown): { config: Config; settings: AcquireSettings; wasm: WebAssembly.Module | undefined } {
  const { nodeTimeout, wasm: given, ...rest } = readFields(options, QUORUM satisfies Fields<QuorumOptions>);
  const wasm = readModule(given);
  if (rest.label !== undefined) readLabel(rest.label);
  const { config, settings } = managerOptions(rest);
  if (nodeTimeout === undefined) return { config, settings, wasm };
  return { config: { ...config, nodeTimeout: readDuration('nodeTimeout', nodeTimeout) }, settings, wasm };
}

function readModule(given: unknown): WebAssembly.Module | undefined {
  if (given === undefined || given instanceof WebAssembly.Module) return given;
  throw new InvalidOptionError('wasm', `is ${formatValue(given)}: give the default export of 'leasehold/quorum.wasm'`);
}

function managerOptions(given: { readonly [field in (typeof MANAGER)[number]]?: unknown }): { config: Config; settings: AcquireSettings } {
  const config = { ...MANAGER_DEFAULTS, batches: true, ahead: false };
  if (given.prefix !== undefined) config.prefix = readPrefix(given.prefix);
  if (given.localHandoffs !== undefined) config.localHandoffs = readCount('localHandoffs', given.localHandoffs);
  if (given.claimWindow !== undefined) config.claimWindow = readDuration('claimWindow', given.claimWindow);
  if (given.responseTimeout !== undefined) config.responseTimeout = readDuration('responseTimeout', given.responseTimeout);
  if (given.mixedFleet !== undefined) config.mixedFleet = readBoolean('mixedFleet', given.mixedFleet);
  return { config, settings: mergeSettings({ ...given, label: undefined }, SETTINGS) };
}

/** Merges a lock's options over its manager's. */
export function readLockOptions(options: unknown, defaults: AcquireSettings): AcquireSettings {
  return options === undefined ? defaults : mergeSettings(readFields(options, LOCK satisfies Fields<LockOptions>), defaults);
}

/** Merges the options of one acquire over its lock's. */
export function readAcquireOptions(options: unknown, defaults: AcquireSettings): { settings: AcquireSettings; signal: AbortSignal | undefined } {
  if (options === undefined) return { settings: defaults, signal: undefined };
  const given = readFields(options, ACQUIRE);
  return { settings: mergeSettings(given, defaults), signal: readSignal(given.signal) };
}

/** The settings of a call that doesn't wait for the lock: its `wait` limits how long the server may take. Not a spread, which is slow. */
export function withoutWait({ ttl, renew, maxHold, wait, replicas, linger, label }: AcquireSettings): AcquireSettings {
  return { ttl, renew, maxHold, wait: undefined, replicas, linger, label, within: wait === Infinity ? undefined : wait };
}

/** Checks the options of a semaphore. */
export function readSemaphoreOptions(options: unknown): { permits: number; limit: number } {
  const { limit, permits = 1, ...rest } = readFields(options, SEMAPHORE satisfies Fields<SemaphoreOptions>);
  const [, most, bounds] = BOUNDS.limit;
  if (!isCount(limit) || limit > most) throw new InvalidOptionError('limit', `is ${formatValue(limit)}: choose ${bounds} permits`);
  if (!isCount(permits) || permits > limit) {
    throw new InvalidOptionError('permits', `is ${formatValue(permits)}: choose 1 to the semaphore's limit, ${limit}`);
  }
  return { ...rest, permits, limit };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1;
}

/** Checks the names of a lock on several names. */
export function readNames(given: unknown, prefix: string): readonly string[] {
  const names = listOf(given).map((name) => readName(name, prefix));
  if (new Set(names).size < names.length) throw new InvalidOptionError('names', 'has a name twice: give each name once');
  return names;
}

/** Checks the options of a lock on several names. */
export function readMultiOptions(options: unknown): { oneScript: boolean } {
  const { oneScript = false, ...rest } = readFields(options, MULTI satisfies Fields<MultiOptions>);
  return { ...rest, oneScript: readBoolean('oneScript', oneScript) };
}

/** Checks the options of a force release. Returns whether it deletes a key without a TTL. */
export function readForceReleaseOptions(options: unknown): boolean {
  const { foreign = false } = readFields(options, ['foreign']);
  return readBoolean('foreign', foreign);
}

function listOf(given: unknown): readonly unknown[] {
  return readGuarded('names', () => {
    const list = isArray(given) ? (given as readonly unknown[]) : [];
    if (list.length > 0 && list.length <= MOST_NAMES) return Array.from(list);
    const problem = isArray(given) ? (list.length === 0 ? 'is empty' : `has ${list.length}`) : `is ${formatValue(given)}`;
    throw new InvalidOptionError('names', `${problem}: give a list of 1 to ${MOST_NAMES} names`);
  });
}

function mergeSettings(given: { readonly [field in (typeof LOCK)[number]]?: unknown }, defaults: AcquireSettings): AcquireSettings {
  const settings = {
    ttl: given.ttl === undefined ? defaults.ttl : readBounded('ttl', given.ttl),
    renew: given.renew === undefined ? defaults.renew : readBoolean('renew', given.renew),
    maxHold: given.maxHold === undefined ? defaults.maxHold : readBounded('maxHold', given.maxHold),
    wait: given.wait === undefined ? defaults.wait : given.wait === 'forever' ? Infinity : readBounded('wait', given.wait),
    replicas: given.waitForReplicas === undefined ? defaults.replicas : readGuarded('waitForReplicas', () => readReplicas(given.waitForReplicas)),
    linger: given.linger === undefined ? defaults.linger : readBounded('linger', given.linger),
    label: given.label === undefined ? defaults.label : readLabel(given.label) || undefined,
  } satisfies { readonly [field in Exclude<(typeof LOCK)[number], 'waitForReplicas'> | 'replicas']: unknown };
  if (settings.maxHold !== undefined && !settings.renew) {
    throw new InvalidOptionError('maxHold', 'limits renewals, but `renew` is false: use only `ttl`');
  }
  return settings;
}

function readBounded(field: keyof typeof BOUNDS, value: unknown): number {
  const millis = readDuration(field, value);
  const [least, most, bounds] = BOUNDS[field];
  if (millis >= least && millis <= most) return millis;
  const hint = field === 'wait' ? ", or 'forever', or call tryAcquire() instead" : '';
  throw new InvalidOptionError(field, `is ${millis} ms: choose ${bounds}${hint}`);
}

function readReplicas(given: unknown): ReplicaSettings {
  if (typeof given !== 'object' || given === null || isArray(given)) {
    throw new InvalidOptionError('waitForReplicas', `is ${formatValue(given)}: give { min, timeout }`);
  }
  const { min, timeout: duration, ...others } = given as Record<string, unknown>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new InvalidOptionError('waitForReplicas', `has no \`${unknown}\`: give { min, timeout }`);
  if (typeof min !== 'number' || !Number.isSafeInteger(min) || min < 1) {
    throw new InvalidOptionError('waitForReplicas', `has \`min\` ${formatValue(min)}: give a whole number of replicas, at least 1`);
  }
  if (duration === undefined) throw new InvalidOptionError('waitForReplicas', 'has no `timeout`: give { min, timeout }');
  const timeout = readDuration('waitForReplicas', duration);
  const [least, most, bounds] = BOUNDS.waitForReplicas;
  if (timeout < least || timeout > most) throw new InvalidOptionError('waitForReplicas', `has a \`timeout\` of ${timeout} ms: choose ${bounds}`);
  return { min, timeout };
}
