/** The Web Locks API of browsers, for locks that a whole fleet shares. */

import type { LockInfo } from '../client/index.js';
import { type Mode, PLAIN } from '../engine/index.js';
import { InvalidOptionError, UnsupportedError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import type { Lease } from './lease.js';
import { makeLock, type ManagerContext, runWithLease } from './lock.js';
import { type Duration, readBoolean, readFields } from './validate.js';

/** The options of {@link LockManager.request}. */
export interface RequestOptions {
  /** `'exclusive'` is held alone, `'shared'` together with other readers. Default `'exclusive'`. */
  readonly mode?: Mode | undefined;
  /** Does not wait: the callback gets `null` if the lock is not free. Default `false`. */
  readonly ifAvailable?: boolean | undefined;
  /** `true` rejects with `unsupported`: a request can't take a lock from its holder. */
  readonly steal?: boolean | undefined;
  /** Ends the wait: the request then rejects with `signal.reason`. Not possible together with `ifAvailable`. */
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

const FIELDS = ['mode', 'ifAvailable', 'steal', 'signal', 'ttl', 'renew', 'maxHold', 'wait'] as const;

/** Takes the lock, runs the callback, and releases the lock when the callback's promise settles. */
export async function request({ client, defaults }: ManagerContext, name: unknown, options: unknown, work: unknown): Promise<unknown> {
  if (typeof work !== 'function') throw new InvalidOptionError('callback', `is ${formatValue(work)}: give a function`);
  const callback = work as (lease: Lease | null) => unknown;
  const { mode = 'exclusive', ifAvailable = false, steal = false, signal, ...rest } = readFields(options, FIELDS);
  if (mode !== 'exclusive' && mode !== 'shared') {
    throw new InvalidOptionError('mode', `is ${formatValue(mode)}: give 'exclusive' or 'shared'`);
  }
  const onlyIfAvailable = readBoolean('ifAvailable', ifAvailable);
  if (readBoolean('steal', steal)) throw new UnsupportedError("`steal`, because a client can't take a lock from another");
  if (onlyIfAvailable && signal !== undefined) throw new UnsupportedError('`signal` with `ifAvailable`, because there is no wait to end');
  const context = { client, defaults: { ...defaults, wait: Infinity } };
  const lock = makeLock(context, { name, mode, kind: PLAIN }, withoutUndefined(rest));
  if (!onlyIfAvailable) return runWithLease(await lock.acquire({ signal: signal as AbortSignal }), callback);
  const lease = await lock.tryAcquire();
  return lease === null ? callback(null) : runWithLease(lease, callback);
}

function withoutUndefined(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
