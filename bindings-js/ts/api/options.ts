/** The options of managers, locks and acquires, with their defaults, and the checks that untyped callers need. */

import { type Duration, milliseconds } from './duration.js';
import type { Config, Wish } from '../engine/engine.js';
import { InvalidOptionError, isLeaseholdError } from '../support/errors.js';
import { type ReplicaOptions, readReplicas } from '../client/replicas.js';
import { isList, shown } from '../support/format.js';

/** The options of a lock. They override the manager's options; the options of a call override both. */
export interface LockOptions {
  /**
   * How long the server keeps the lease unless it is renewed. A crashed holder blocks the others for this long.
   * 10 ms to 24 h. Default `'30s'`.
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
   * after the `wait`, and takes at most `timeout` and four `responseTimeout`s. Releases and renewals don't wait for replicas.
   *
   * Each acquire opens a connection of its own for this, even if the lock is handed over inside this client. So it needs an
   * ioredis, node-redis or GLIDE client. A custom connection, a quorum and several names reject with `unsupported`.
   * Default: don't wait for replicas.
   */
  readonly waitForReplicas?: ReplicaOptions | undefined;
}

/** The options of one acquire. */
export interface AcquireOptions extends LockOptions {
  /** Ends the wait: the call then rejects with `signal.reason`. It has no effect once the call has returned a lease. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The options of a {@link LockManager}. `ttl`, `renew`, `maxHold` and `wait` are defaults for its locks. All clients of one
 * fleet should use the same values for the others.
 */
export interface LockManagerOptions extends Omit<LockOptions, 'waitForReplicas'> {
  /** Put before every lock name. Default: empty. */
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
  /** How long the server remembers the last fence of an unused name. 1 min to 30 days. Default `'1h'`. */
  readonly fenceRetention?: Duration | undefined;
}

/** The options of {@link LockManager.quorum}. */
export interface QuorumOptions extends LockManagerOptions {
  /**
   * How long one server may take to answer a command. A slower server counts as down. 10 ms to 60 s. Default `'100ms'`,
   * which suits a LAN. `responseTimeout` applies only to the first question to each server.
   */
  readonly nodeTimeout?: Duration | undefined;
}

const DEFAULTS = {
  wish: { ttl: 30_000, renew: true, maxHold: undefined, wait: 60_000, replicas: undefined } satisfies Wish,
  config: {
    prefix: '',
    localHandoffs: 32,
    claimWindow: 3_000,
    responseTimeout: 2_000,
    nodeTimeout: 100,
    mixedFleet: false,
    fenceRetention: 3_600_000,
  } satisfies Config,
};

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** The bounds of durations, in milliseconds and in words. The engine has the same bounds. */
const BOUNDS = {
  ttl: [10, DAY, '10 ms to 24 h'],
  maxHold: [10, 30 * DAY, '10 ms to 30 days'],
  wait: [1, 30 * DAY, "1 ms to 30 days, or 'forever', or call tryAcquire() instead"],
} as const;

const DEFAULTABLE = ['ttl', 'renew', 'maxHold', 'wait'] as const;
const LOCK = [...DEFAULTABLE, 'waitForReplicas'] as const;
const ACQUIRE = [...LOCK, 'signal'] as const;
const MANAGER = [...DEFAULTABLE, 'prefix', 'localHandoffs', 'responseTimeout', 'claimWindow', 'mixedFleet', 'fenceRetention'] as const;
const QUORUM = [...MANAGER, 'nodeTimeout'] as const;

/** Checks a manager's options and splits them into the engine's options and the defaults of its locks. */
export function readManagerOptions(options: unknown): { config: Config; wish: Wish } {
  return managerOptions(read(options, MANAGER));
}

/** Checks the options of a quorum's manager. */
export function readQuorumOptions(options: unknown): { config: Config; wish: Wish } {
  const { nodeTimeout, ...rest } = read(options, QUORUM);
  const { config, wish } = managerOptions(rest);
  if (nodeTimeout === undefined) return { config, wish };
  return { config: { ...config, nodeTimeout: milliseconds('nodeTimeout', nodeTimeout) }, wish };
}

function managerOptions(given: { readonly [field in (typeof MANAGER)[number]]?: unknown }): { config: Config; wish: Wish } {
  const { prefix, localHandoffs, claimWindow, responseTimeout, nodeTimeout, mixedFleet, fenceRetention } = DEFAULTS.config;
  const config = {
    prefix: given.prefix === undefined ? prefix : text('prefix', given.prefix),
    localHandoffs: given.localHandoffs === undefined ? localHandoffs : count('localHandoffs', given.localHandoffs),
    claimWindow: given.claimWindow === undefined ? claimWindow : milliseconds('claimWindow', given.claimWindow),
    responseTimeout:
      given.responseTimeout === undefined ? responseTimeout : milliseconds('responseTimeout', given.responseTimeout),
    nodeTimeout,
    mixedFleet: given.mixedFleet === undefined ? mixedFleet : flag('mixedFleet', given.mixedFleet),
    fenceRetention:
      given.fenceRetention === undefined ? fenceRetention : milliseconds('fenceRetention', given.fenceRetention),
  };
  return { config, wish: wishOf(given, DEFAULTS.wish) };
}

/** Merges a lock's options over its manager's. */
export function readLockOptions(options: unknown, defaults: Wish): Wish {
  return options === undefined ? defaults : wishOf(read(options, LOCK), defaults);
}

/** Merges the options of one acquire over its lock's. */
export function readAcquireOptions(options: unknown, defaults: Wish): { wish: Wish; signal: AbortSignal | undefined } {
  if (options === undefined) return { wish: defaults, signal: undefined };
  const given = read(options, ACQUIRE);
  return { wish: wishOf(given, defaults), signal: readSignal(given.signal) };
}

/** Reads the fields of an options object. Untyped callers can pass anything. An unknown field counts as a typo and is refused. */
export function read<Field extends string>(options: unknown, fields: readonly Field[]): { readonly [field in Field]?: unknown } {
  if (options === undefined) return {};
  if (typeof options !== 'object' || options === null || isList(options)) {
    throw new InvalidOptionError('options', `is ${shown(options)}: give an object, or nothing`);
  }
  for (const field of guarded('options', () => Object.keys(options))) {
    if (!fields.includes(field as Field)) throw new InvalidOptionError(field, `is not an option here. The options are ${fields.join(', ')}`);
  }
  const given: { [field in Field]?: unknown } = {};
  for (const field of fields) given[field] = guarded(field, () => (options as Record<string, unknown>)[field]);
  return given;
}

/** Checks a signal, if there is one. */
export function readSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  const is = guarded('signal', () => {
    const { aborted, addEventListener, removeEventListener } = (signal ?? {}) as Record<string, unknown>;
    return typeof aborted === 'boolean' && typeof addEventListener === 'function' && typeof removeEventListener === 'function';
  });
  if (!is) throw new InvalidOptionError('signal', `is ${shown(signal)}: give an AbortSignal, e.g. controller.signal`);
  return signal as AbortSignal;
}

function wishOf(given: { readonly [field in (typeof LOCK)[number]]?: unknown }, defaults: Wish): Wish {
  const wish = {
    ttl: given.ttl === undefined ? defaults.ttl : time('ttl', given.ttl),
    renew: given.renew === undefined ? defaults.renew : flag('renew', given.renew),
    maxHold: given.maxHold === undefined ? defaults.maxHold : time('maxHold', given.maxHold),
    wait: given.wait === undefined ? defaults.wait : given.wait === 'forever' ? Infinity : time('wait', given.wait),
    replicas: given.waitForReplicas === undefined ? defaults.replicas : guarded('waitForReplicas', () => readReplicas(given.waitForReplicas)),
  };
  if (wish.maxHold !== undefined && !wish.renew) {
    throw new InvalidOptionError('maxHold', 'limits renewals, but `renew` is false: use only `ttl`');
  }
  return wish;
}

function time(field: keyof typeof BOUNDS, value: unknown): number {
  const millis = milliseconds(field, value);
  const [least, most, bounds] = BOUNDS[field];
  if (millis >= least && millis <= most) return millis;
  throw new InvalidOptionError(field, `is ${millis} ms: choose ${bounds}`);
}

export function text(field: string, value: unknown): string {
  if (typeof value !== 'string') throw new InvalidOptionError(field, `is ${shown(value)}: give a string`);
  return value;
}

function flag(field: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw new InvalidOptionError(field, `is ${shown(value)}: give true or false`);
  return value;
}

function count(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new InvalidOptionError(field, `is ${shown(value)}: give a whole number`);
}

/** Runs `get`, which may hit a getter or a proxy that throws. */
export function guarded<T>(field: string, get: () => T): T {
  try {
    return get();
  } catch (cause) {
    if (isLeaseholdError(cause)) throw cause;
    throw new InvalidOptionError(field, "can't be read", { cause });
  }
}
