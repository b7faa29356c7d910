/** Checks what callers pass in: fields of options, names and durations. Untyped callers can pass anything. */

import { InvalidOptionError, isLeaseholdError } from '../support/errors.js';
import { formatValue, isArray } from '../support/format.js';
import { LABEL_RULES } from '../support/options.generated.js';

/** How many replicas must acknowledge a lease, and how long to wait for them. */
export interface ReplicaOptions {
  /** How many replicas must acknowledge the lease. At least 1. */
  readonly min: number;
  /** How long to wait for the replicas: 1 ms to 60 s. */
  readonly timeout: Duration;
}

/** Reads the fields of an options object, without those that are `undefined`. An unknown field counts as a typo and is refused. */
export function readFields<Field extends string>(options: unknown, fields: readonly Field[]): { readonly [field in Field]?: unknown } {
  if (options === undefined) return {};
  if (typeof options !== 'object' || options === null || isArray(options)) {
    throw new InvalidOptionError('options', `is ${formatValue(options)}: give an object, or nothing`);
  }
  const given: { [field in Field]?: unknown } = {};
  // A getter or a proxy may throw. One `try` for all fields, because this runs at each call that has options.
  let reading = 'options';
  try {
    const own = Object.keys(options);
    for (const field of own) {
      if (!fields.includes(field as Field)) throw new InvalidOptionError(field, `is not an option here. The options are ${fields.join(', ')}`);
    }
    // The prototype of another object may have fields, too.
    for (const field of Object.getPrototypeOf(options) === Object.prototype ? (own as Field[]) : fields) {
      reading = field;
      const value = (options as Record<string, unknown>)[field];
      if (value !== undefined) given[field] = value;
    }
  } catch (cause) {
    throw unreadable(reading, cause);
  }
  return given;
}

/** Checks a signal, if there is one. */
export function readSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  const isSignal = readGuarded('signal', () => {
    const { aborted, addEventListener, removeEventListener } = (signal ?? {}) as Record<string, unknown>;
    return typeof aborted === 'boolean' && typeof addEventListener === 'function' && typeof removeEventListener === 'function';
  });
  if (!isSignal) throw new InvalidOptionError('signal', `is ${formatValue(signal)}: give an AbortSignal, e.g. controller.signal`);
  return signal as AbortSignal;
}

export function readString(field: string, value: unknown): string {
  if (typeof value !== 'string') throw new InvalidOptionError(field, `is ${formatValue(value)}: give a string`);
  return value;
}

/** Checks a label: at most 128 bytes that fit on one line of a terminal. */
export function readLabel(value: unknown): string {
  const label = readString('label', value);
  const most = LABEL_RULES.mostBytes;
  if (label.length > most || new TextEncoder().encode(label).length > most) throw new InvalidOptionError('label', 'is longer than 128 bytes: give a shorter one');
  if (/[\p{Cc}\p{Surrogate}]/u.test(label)) throw new InvalidOptionError('label', 'has a control character, such as a line break, or half of a surrogate pair: leave it out');
  return label;
}

/** `<uuid>:<number>`, as the engine writes it. */
const TOKEN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:(?:0|[1-9]\d{0,18})$/;

/** Checks a lease's token. */
export function readToken(value: unknown): string {
  const token = readString('token', value);
  if (!TOKEN.test(token)) throw new InvalidOptionError('token', "is not the token of a lease: pass on the text that the holder's `token()` gave, unchanged");
  return token;
}

export function readBoolean(field: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw new InvalidOptionError(field, `is ${formatValue(value)}: give true or false`);
  return value;
}

export function readCount(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new InvalidOptionError(field, `is ${formatValue(value)}: give a whole number`);
}

/** Runs `get`, which may hit a getter or a proxy that throws. */
export function readGuarded<T>(field: string, get: () => T): T {
  try {
    return get();
  } catch (cause) {
    throw unreadable(field, cause);
  }
}

function unreadable(field: string, cause: unknown): unknown {
  return isLeaseholdError(cause) ? cause : new InvalidOptionError(field, "can't be read", { cause });
}

/**
 * A duration: a number of milliseconds, or a string with a unit: `'500ms'`, `'30s'`, `'5m'`, `'1h'`, `'2d'`.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const DURATION = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d)$/;

/**
 * Converts a duration to milliseconds. Use it for a text whose value TypeScript doesn't know, such as an environment variable. `field`
 * is the name that an error has. The option that gets the result checks its bounds.
 *
 * @throws `invalid-option` for `undefined`, and for a text without a unit.
 *
 * @example
 * ```ts
 * const ttl = parseDuration(process.env.LOCK_TTL ?? '30s', 'LOCK_TTL');
 * const locks = new LockManager(redis, { ttl });
 * ```
 */
export function parseDuration(value: string | number | undefined, field = 'duration'): number {
  return readDuration(field, value);
}

/** Converts a duration to milliseconds. The engine checks its bounds. */
export function readDuration(field: string, value: unknown): number {
  const millis = typeof value === 'string' ? millisOf(value) : value;
  if (typeof millis === 'number' && millis >= 0 && millis <= Number.MAX_SAFE_INTEGER) return millis;
  throw new InvalidOptionError(field, `is ${formatValue(value)}: give a number of milliseconds, or a string with a unit, like '30s', '500ms', '5m', '1h'`);
}

function millisOf(text: string): number | undefined {
  const [, number, unit] = DURATION.exec(text) ?? [];
  return number === undefined || unit === undefined ? undefined : Number(number) * (UNITS[unit] ?? NaN);
}

/** The maximum length of a name with its prefix, in bytes. */
const MAX_BYTES = 64 * 1024;

/** Checks a lock's name together with the manager's prefix. */
export function readName(name: unknown, prefix: string): string {
  const given = readString('name', name);
  const problem = problemOf(given, prefix + given);
  if (problem !== undefined) throw new InvalidOptionError('name', problem);
  return given;
}

/** Checks a prefix: at least a plain name must be possible with it. */
export function readPrefix(value: unknown): string {
  const prefix = readString('prefix', value);
  const key = `${prefix}x`;
  const problem = isTooLong(key) ? 'leaves no room for a name: with its prefix, a name has 64 KiB at most' : problemOf(key, key);
  if (problem !== undefined) throw new InvalidOptionError('prefix', problem);
  return prefix;
}

/** Whether a lock can have this name. */
export function isName(name: string, prefix: string): boolean {
  return problemOf(name, prefix + name) === undefined;
}

function problemOf(name: string, key: string): string | undefined {
  if (name === '') return 'is empty: give the lock a name';
  // Two such names would become the same key in UTF-8.
  if (!isWellFormed(name)) return 'has half of a surrogate pair: give valid Unicode text';
  if (isTooLong(key)) return 'is longer than 64 KiB with its prefix: hash it first';
  if (key.startsWith('leasehold:')) return 'begins with `leasehold:`, which is reserved: choose another name or prefix';
  if (/[{}]/.test(key) && !hasHashTag(key)) {
    return 'has a brace but no valid hash tag: write one like `{tag}`, or remove the brace';
  }
  return undefined;
}

/** Node's own function is faster, and names are read at each use of a lock. */
function isWellFormed(text: string): boolean {
  return (text as { isWellFormed?(): boolean }).isWellFormed?.() ?? !/\p{Surrogate}/u.test(text);
}

/** A UTF-16 unit takes at most three bytes in UTF-8, so only long keys need to be encoded. */
function isTooLong(key: string): boolean {
  return key.length > MAX_BYTES / 3 && new TextEncoder().encode(key).length > MAX_BYTES;
}

/** Redis's rule: the hash tag is the text between the first `{` and the next `}`, if it is not empty. */
function hasHashTag(key: string): boolean {
  return /^[^{]*\{[^}]+\}/.test(key);
}
