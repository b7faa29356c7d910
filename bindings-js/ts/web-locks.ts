/** The interface that browsers have for locks inside one origin, for locks of a whole fleet. */

import type { Driver, LockInfo } from './driver.js';
import type { Duration } from './duration.js';
import { LOCK, type Mode, type Wish } from './engine.js';
import { InvalidOptionError, UnsupportedError } from './errors.js';
import type { Lease } from './lease.js';
import { lockOf } from './lock.js';
import { read } from './options.js';
import { runUnder } from './run.js';
import { shown } from './shown.js';

/** The options of {@link LockManager.request}. */
export interface RequestOptions {
  /** Default `'exclusive'`. */
  readonly mode?: Mode | undefined;
  /** The callback gets null if the lock is not free at once. Default false. */
  readonly ifAvailable?: boolean | undefined;
  /** Not possible here: a lock is taken from its holder by nobody. `true` is refused with `unsupported`. */
  readonly steal?: boolean | undefined;
  /** Ends the wait: the request then rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /** As in {@link LockOptions}. */
  readonly ttl?: Duration | undefined;
  /** As in {@link LockOptions}. */
  readonly renew?: boolean | undefined;
  /** As in {@link LockOptions}. */
  readonly maxHold?: Duration | undefined;
  /** As in {@link LockOptions}, but the default is `'forever'`, as it is in browsers. */
  readonly wait?: Duration | 'forever' | undefined;
}

/** What a manager holds and waits for. */
export interface LockManagerSnapshot {
  readonly held: LockInfo[];
  readonly pending: LockInfo[];
}

const FIELDS = ['mode', 'ifAvailable', 'steal', 'signal', 'ttl', 'renew', 'maxHold', 'wait'] as const;

/** Takes the lock, calls back, and releases when what the callback answers has settled. */
export async function request(driver: Driver, defaults: Wish, name: unknown, options: unknown, work: unknown): Promise<unknown> {
  if (typeof work !== 'function') throw new InvalidOptionError('callback', `is ${shown(work)}: give a function`);
  const callback = work as (lease: Lease | null) => unknown;
  const { mode = 'exclusive', ifAvailable = false, steal = false, signal, ...rest } = read(options, FIELDS);
  if (mode !== 'exclusive' && mode !== 'shared') {
    throw new InvalidOptionError('mode', `is ${shown(mode)}: give 'exclusive' or 'shared'`);
  }
  check('ifAvailable', ifAvailable);
  check('steal', steal);
  if (steal) throw new UnsupportedError('`steal`: no client takes a lock from another');
  if (ifAvailable && signal !== undefined) throw new UnsupportedError('`signal` with `ifAvailable`: there is no wait to end');
  const lock = lockOf(driver, name, LOCK[mode], withoutUndefined(rest), { ...defaults, wait: Infinity });
  if (!ifAvailable) return runUnder(await lock.acquire({ signal: signal as AbortSignal }), callback);
  const lease = await lock.tryAcquire();
  return lease === null ? callback(null) : runUnder(lease, callback);
}

function check(field: string, value: unknown): asserts value is boolean {
  if (typeof value !== 'boolean') throw new InvalidOptionError(field, `is ${shown(value)}: give true or false`);
}

function withoutUndefined(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
