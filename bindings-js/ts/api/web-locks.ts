/** The Web Locks API of browsers, for locks that a whole fleet shares. */

import type { LockInfo } from '../client/index.js';
import { type AcquireSettings, type LockSpec, type Mode, PLAIN } from '../engine/index.js';
import { InvalidOptionError, isLeaseholdError, UnsupportedError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { platformError } from '../support/platform-errors.js';
import type { Lease } from './lease.js';
import { Lock, type ManagerContext, runWithLease } from './lock.js';
import { readLockOptions } from './options.js';
import type { Stealing } from './stealing.js';
import { type Duration, isName, readFields, readGuarded, readName, readSignal } from './validate.js';

/** The options of {@link LockManager.request}. */
export interface RequestOptions {
  /** `'exclusive'` is held alone, `'shared'` together with other readers. Default `'exclusive'`. */
  readonly mode?: Mode | undefined;
  /** Does not wait: the callback gets `null` if the lock is not free. Default `false`. */
  readonly ifAvailable?: boolean | undefined;
  /**
   * Takes the lock from its holders, ahead of all waiters. Their requests reject with an `AbortError`: those of this manager at
   * once, those of other managers when they find out, which takes a third of their `ttl` at most. Until then, only a fence stops
   * them. Exclusive only, and not together with `ifAvailable` or `signal`. Default `false`.
   */
  readonly steal?: boolean | undefined;
  /** Ends the wait: the request then rejects with `signal.reason`. Not together with `ifAvailable` or `steal`. */
  readonly signal?: AbortSignal | undefined;
  /** See {@link LockOptions.ttl}. */
  readonly ttl?: Duration | undefined;
  /** See {@link LockOptions.renew}. */
  readonly renew?: boolean | undefined;
  /** See {@link LockOptions.maxHold}. */
  readonly maxHold?: Duration | undefined;
  /** See {@link LockOptions.wait}. Here, the default is `'forever'`, as in browsers. */
  readonly wait?: Duration | 'forever' | undefined;
}

/** The locks that one manager holds and waits for. */
export interface LockManagerSnapshot {
  /** The locks that the manager holds. */
  readonly held: LockInfo[];
  /** The locks that the manager waits for. */
  readonly pending: LockInfo[];
  /** The locks that nobody holds, and that the manager keeps for its next caller: see {@link LockOptions.linger}. */
  readonly lingering: LockInfo[];
}

/** What a manager gives its requests. */
export interface RequestContext extends ManagerContext {
  readonly stealing: Stealing;
}

type Callback = (lease: Lease | null) => unknown;

const FIELDS = ['mode', 'ifAvailable', 'steal', 'signal', 'ttl', 'renew', 'maxHold', 'wait'] as const;

/** Takes the lock, runs the callback, and releases the lock when the callback's promise settles. */
export async function request(context: RequestContext, name: unknown, options: unknown, work: unknown): Promise<unknown> {
  const { client, stealing } = context;
  const { lock, settings, ifAvailable, steal, signal, callback } = readRequest(context, name, options, work);
  try {
    if (steal) return await stealing.run(lock, settings, callback);
    const wanted = new Lock(client, lock, settings);
    if (!ifAvailable) return await runWithLease(client, await wanted.acquire({ signal }), callback);
    const lease = await wanted.tryAcquire();
    return await (lease === null ? callback(null) : runWithLease(client, lease, callback));
  } catch (error) {
    if (isLeaseholdError(error, 'lost') && error.reason === 'revoked' && error.lockName === lock.name) throw platformError('AbortError', error);
    throw error;
  }
}

interface Request {
  readonly lock: LockSpec;
  readonly settings: AcquireSettings;
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly signal: AbortSignal | undefined;
  readonly callback: Callback;
}

/** Converts the arguments as browsers do, then checks them in the specification's order. */
function readRequest({ client, defaults, stealing }: RequestContext, name: unknown, options: unknown, work: unknown): Request {
  if (typeof work !== 'function') throw new InvalidOptionError('callback', `is ${formatValue(work)}: give a function`);
  const given = readFields(options === null ? undefined : options, FIELDS);
  const { mode: givenMode, ifAvailable: givenIfAvailable, steal: givenSteal, signal: givenSignal, ...rest } = given;
  const text = readText('name', name);
  const mode = readMode(givenMode);
  const [ifAvailable, steal, signal] = [Boolean(givenIfAvailable), Boolean(givenSteal), readSignal(givenSignal)];
  const problem = problemOf({ name: text, mode, ifAvailable, steal, signal, canSteal: stealing.isPossible });
  if (problem !== undefined) throw platformError('NotSupportedError', new UnsupportedError(problem));

  const lock = { name: text, alias: aliasOf(text, client.prefix), mode, kind: PLAIN };
  const settings = readLockOptions(rest, { ...defaults, wait: Infinity });
  // What lingers is listed by its name on the server. A client that steals ends with its lock.
  const lingers = lock.alias === undefined && !steal;
  return { lock, settings: lingers ? settings : { ...settings, linger: undefined }, ifAvailable, steal, signal, callback: work as Callback };
}

/** Why a request is not supported. */
function problemOf(
  { name, mode, ifAvailable, steal, signal, canSteal }: { name: string; mode: Mode; ifAvailable: boolean; steal: boolean; signal: unknown; canSteal: boolean },
): string | undefined {
  if (name.startsWith('-')) return 'a name that begins with a hyphen, which the Web Locks API reserves: choose another name, or use `mutex`';
  if (steal && ifAvailable) return '`steal` with `ifAvailable`: a request that steals never finds the lock taken';
  if (steal && mode !== 'exclusive') return "`steal` with the mode 'shared': a stolen lock is exclusive";
  if (signal !== undefined && steal) return '`signal` with `steal`, because there is no wait to end';
  if (signal !== undefined && ifAvailable) return '`signal` with `ifAvailable`, because there is no wait to end';
  return steal && !canSteal ? '`steal` in a quorum: use `forceRelease`' : undefined;
}

/** Converts a value to text, as browsers do. A value that is missing is refused, because it would lock the name `undefined`. */
function readText(field: string, value: unknown): string {
  if (value === undefined || value === null || typeof value === 'symbol') throw new InvalidOptionError(field, `is ${formatValue(value)}: give a string`);
  return readGuarded(field, () => String(value));
}

function readMode(value: unknown): Mode {
  const mode = value === undefined ? 'exclusive' : value;
  const text = mode === null ? 'null' : readText('mode', mode);
  if (text === 'exclusive' || text === 'shared') return text;
  throw new InvalidOptionError('mode', `is ${formatValue(mode)}: give 'exclusive' or 'shared'`);
}

/**
 * The name on the server, if this name can't be a key: an empty one, one with half of a surrogate pair or with a lone brace, one that begins
 * with `leasehold:`. The alias begins with a hyphen, as no name of a request does, so each name has a key of its own.
 */
function aliasOf(name: string, prefix: string): string | undefined {
  if (isName(name, prefix)) return undefined;
  const escaped = name.replace(/[%{}]|\p{Surrogate}/gu, (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return readName(`-${escaped}`, prefix);
}
