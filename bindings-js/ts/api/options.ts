/** Reads the options of managers, locks and acquires. Most of their types come from the engine's table. */

import { type AcquireSettings, type Config, type LockSpec, nameOnServer, PLAIN } from '../engine/index.js';
import { readRenewIn } from '../renewer/index.js';
import { InvalidOptionError, UnsupportedError } from '../support/errors.js';
import { formatValue, isArray } from '../support/format.js';
import { defaultLabel } from '../support/host.js';
import {
  BOUNDS, CLOSE, COUNTS, LOCK, LOCK_DEFAULTS, type LockSettings, MANAGER, MANAGER_DEFAULTS, MULTI, ONCE, ONCE_DEFAULTS, QUORUM, type ReplicaSettings, SEMAPHORE, withoutWait,
} from '../support/options.generated.js';
import type {
  CloseOptions, LockManagerOptions, LockOptions, MultiOptions, OnceOptions, QuorumOptions, SemaphoreOptions,
} from './options.generated.js';
import {
  type Duration, readBoolean, readCount, readDuration, readFields, readGuarded, readLabel, readName, readPrefix, readSignal,
} from './validate.js';

export type { CloseOptions, LockManagerOptions, LockOptions, MultiOptions, OnceOptions, QuorumOptions, SemaphoreOptions };

/** The options of one acquire. */
export interface AcquireOptions extends LockOptions {
  /** Ends the wait: the call then rejects with `signal.reason`. It has no effect once the call has returned a lease. */
  readonly signal?: AbortSignal | undefined;
}

/** The options of {@link LockManager.forceRelease}. */
export interface ForceReleaseOptions {
  /**
   * Deletes the key even if it has no TTL. Such a key is another library's, or it is data that is no lock. You lose that data.
   * Default `false`.
   */
  readonly foreign?: boolean | undefined;
}

/** The options of {@link Lease.detach}. */
export interface DetachOptions {
  /** How long the server keeps the lock from now: 10 ms to 30 days. Default: one more `ttl`, or until the end of a fixed lease. */
  readonly for?: Duration | undefined;
}

/** Some of the options in an interface. So an option of the table that an interface lacks does not compile. */
type Fields<Options> = readonly (keyof Options)[];

/** Fields that are not checked yet. */
type Given<Field extends string> = { readonly [field in Field]?: unknown };

const ACQUIRE = [...LOCK, 'signal'] as const;
const MOST_NAMES = 256;
const SETTINGS: AcquireSettings = { ...LOCK_DEFAULTS, replicas: undefined };

/** Checks a manager's options and splits them into the engine's options, the defaults of its locks, and what makes its label. */
export function readManagerOptions(options: unknown): {
  config: Config; settings: AcquireSettings; label: () => string; renewIn: string | undefined; clusterSlots: boolean | undefined;
} {
  const { renewIn: module, clusterSlots: slots, ...given } = readFields(options, MANAGER satisfies Fields<LockManagerOptions>);
  const clusterSlots = slots === undefined ? undefined : readBoolean('clusterSlots', slots);
  const label = given.label === undefined ? undefined : readLabel(given.label);
  const renewIn = readGuarded('renewIn', () => readRenewIn(module));
  return { ...managerOptions(given), label: label === undefined ? defaultLabel : () => label, renewIn, clusterSlots };
}

/** Checks the options of a quorum's manager. */
export function readQuorumOptions(options: unknown): { config: Config; settings: AcquireSettings } {
  const { renewIn, clusterSlots, ...rest } = readFields(options, QUORUM satisfies Fields<QuorumOptions>);
  if (clusterSlots !== undefined) throw new InvalidOptionError('clusterSlots', "can't be used for a quorum: leave it out");
  if (renewIn !== undefined) throw new UnsupportedError('`renewIn` of a quorum; leave the option out');
  if (rest.label !== undefined) readLabel(rest.label);
  return managerOptions(rest);
}

function managerOptions(given: Given<(typeof QUORUM)[number]>): { config: Config; settings: AcquireSettings } {
  const config = { ...MANAGER_DEFAULTS, batches: true, ahead: false };
  for (const field of Object.keys(MANAGER_DEFAULTS) as (keyof typeof MANAGER_DEFAULTS)[]) {
    if (given[field] !== undefined) Object.assign(config, { [field]: readConfig(field, given[field]) });
  }
  return { config, settings: mergeSettings({ ...given, label: undefined }, SETTINGS) };
}

/** Reads an option of the engine's. It checks the bounds itself. */
function readConfig(field: keyof typeof MANAGER_DEFAULTS, value: unknown): string | number | boolean {
  if (field === 'prefix') return readPrefix(value);
  if (COUNTS.includes(field)) return readCount(field, value);
  return typeof MANAGER_DEFAULTS[field] === 'boolean' ? readBoolean(field, value) : readDuration(field, value);
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

/** Checks the options of a semaphore. */
export function readSemaphoreOptions(options: unknown): { permits: number; limit: number; per: number | undefined } {
  const { limit, permits = 1, per, ...rest } = readFields(options, SEMAPHORE satisfies Fields<SemaphoreOptions>);
  const [, most, bounds] = BOUNDS.limit;
  if (!isCount(limit) || limit > most) throw new InvalidOptionError('limit', `is ${formatValue(limit)}: choose ${bounds} permits`);
  if (!isCount(permits) || permits > limit) {
    throw new InvalidOptionError('permits', `is ${formatValue(permits)}: choose 1 to the semaphore's limit, ${limit}`);
  }
  return { ...rest, permits, limit, per: per === undefined ? undefined : readBounded('per', per) };
}

/** Checks the options of a once, and merges them over its manager's. The engine checks how long it keeps the result. */
export function readOnceOptions(options: unknown, defaults: AcquireSettings): { keep: number; settings: AcquireSettings; signal: AbortSignal | undefined } {
  const given = readFields(options, [...(ONCE satisfies Fields<OnceOptions>), 'signal']);
  const { keep = ONCE_DEFAULTS.keep, signal, wait, ...rest } = given;
  const merged = mergeSettings(wait === 0 ? rest : { ...rest, wait }, defaults);
  return { keep: readDuration('keep', keep), settings: wait === 0 ? withoutWait(merged) : merged, signal: readSignal(signal) };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1;
}

/** Checks the parts of a lock on several names: names of mutexes, or locks. `specOf` says what a lock is. */
export function readParts(given: unknown, prefix: string, specOf: (part: unknown) => LockSpec | undefined): readonly LockSpec[] {
  const parts = listOf(given).flatMap((part): readonly LockSpec[] => {
    const spec = specOf(part) ?? { name: readName(part, prefix), mode: 'exclusive', kind: PLAIN };
    if (spec.kind.type === 'multi') return spec.kind.parts;
    if (spec.kind.type === 'semaphore' && spec.kind.per !== undefined) {
      throw new UnsupportedError('a rate can\'t be one of several: acquire it before the others', { lockName: spec.name });
    }
    if (spec.kind.type === 'lock' || spec.kind.type === 'semaphore') return [spec];
    throw new UnsupportedError('one lease has mutexes, read-write locks and semaphores, and no other kinds', { lockName: spec.name });
  });
  const names = new Set(parts.map(nameOnServer));
  if (names.size < parts.length) throw new InvalidOptionError('names', 'has a name twice: give each name once');
  return parts;
}

/** Checks the options of a lock on several names. */
export function readMultiOptions(options: unknown): { oneScript: boolean } {
  const { oneScript = false, ...rest } = readFields(options, MULTI satisfies Fields<MultiOptions>);
  return { ...rest, oneScript: readBoolean('oneScript', oneScript) };
}

/** Checks the options of a close. Returns the time of the drain in milliseconds, or undefined without a drain. */
export function readCloseOptions(options: unknown): number | undefined {
  const { drain } = readFields(options, CLOSE satisfies Fields<CloseOptions>);
  return drain === undefined ? undefined : readBounded('drain', drain);
}

/** Checks the options of a force release. Returns whether it deletes a key without a TTL. */
export function readForceReleaseOptions(options: unknown): boolean {
  const { foreign = false } = readFields(options, ['foreign']);
  return readBoolean('foreign', foreign);
}

/** Checks the options of a detach. Returns how long the server keeps the lock, in milliseconds, or undefined for the default. */
export function readDetachOptions(options: unknown): number | undefined {
  const { for: time } = readFields(options, ['for'] satisfies Fields<DetachOptions>);
  if (time === undefined) return undefined;
  const millis = readDuration('for', time);
  const [least, most, bounds] = BOUNDS.ttl;
  if (millis >= least && millis <= most) return millis;
  throw new InvalidOptionError('for', `is ${millis} ms: choose ${bounds}`);
}

function listOf(given: unknown): readonly unknown[] {
  return readGuarded('names', () => {
    const list = isArray(given) ? (given as readonly unknown[]) : [];
    if (list.length > 0 && list.length <= MOST_NAMES) return Array.from(list);
    const problem = isArray(given) ? (list.length === 0 ? 'is empty' : `has ${list.length}`) : `is ${formatValue(given)}`;
    throw new InvalidOptionError('names', `${problem}: give a list of 1 to ${MOST_NAMES} names`);
  });
}

function mergeSettings(given: Given<(typeof LOCK)[number]>, defaults: AcquireSettings): AcquireSettings {
  const settings: { -readonly [field in keyof AcquireSettings]: AcquireSettings[field] } & Record<string, unknown> = { ...defaults };
  // Only what is given: programs make a lock for each use.
  for (const field of Object.keys(given) as (typeof LOCK)[number][]) {
    const value = given[field];
    if (value === undefined || !LOCK.includes(field)) continue;
    if (field === 'waitForReplicas') settings.replicas = readGuarded(field, () => readReplicas(value));
    else settings[field] = readSetting(field, value) as never;
  }
  if (settings.maxHold !== undefined && !settings.renew) {
    throw new InvalidOptionError('maxHold', 'limits renewals, but `renew` is false: use only `ttl`');
  }
  if (settings.atLeast !== undefined && settings.maxHold !== undefined && settings.atLeast > settings.maxHold) {
    throw new InvalidOptionError('atLeast', 'is longer than `maxHold`: choose less');
  }
  return settings;
}

/** Reads an option by its bounds. One without bounds is a flag. */
function readSetting(field: Exclude<(typeof LOCK)[number], 'waitForReplicas'>, value: unknown): unknown {
  if (field === 'label') return readLabel(value) || undefined;
  if (field === 'wait' && value === 'forever') return Infinity;
  if (COUNTS.includes(field)) return readCount(field, value);
  return isBounded(field) ? readBounded(field, value) : readBoolean(field satisfies Flags, value);
}

type Flags = { [field in keyof LockSettings]: NonNullable<LockSettings[field]> extends boolean ? field : never }[keyof LockSettings];

function isBounded<Field extends string>(field: Field): field is Field & keyof typeof BOUNDS {
  return field in BOUNDS;
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
