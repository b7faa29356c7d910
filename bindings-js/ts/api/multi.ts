/** Several names as one lock. */

import type { Driver } from '../client/client.js';
import { LOCK, type Wish } from '../engine/engine.js';
import { InvalidOptionError } from '../support/errors.js';
import { Lock } from './lock.js';
import { readName } from './name.js';
import { guarded, type LockOptions, read, readLockOptions } from './options.js';
import { isList, shown } from '../support/format.js';

/** The options of {@link LockManager.multi}. */
export interface MultiOptions extends Omit<LockOptions, 'waitForReplicas'> {
  /**
   * Rejects with `cross-slot` if no single script can take the names, because they are in different slots of a cluster.
   * Names in one slot are always tried with one script. Default `false`.
   */
  readonly oneScript?: boolean | undefined;
}

const MOST = 256;
const FIELDS = ['oneScript', 'ttl', 'renew', 'maxHold', 'wait'] as const;

function listOf(given: unknown): readonly unknown[] {
  return guarded('names', () => {
    const list = isList(given) ? (given as readonly unknown[]) : [];
    if (list.length > 0 && list.length <= MOST) return Array.from(list);
    const problem = isList(given) ? (list.length === 0 ? 'is empty' : `has ${list.length}`) : `is ${shown(given)}`;
    throw new InvalidOptionError('names', `${problem}: give a list of 1 to ${MOST} names`);
  });
}

/** Makes a lock of these names. Its own name is all of them, separated by commas. */
export function multiOf(driver: Driver, given: unknown, options: unknown, defaults: Wish): Lock {
  const names = listOf(given).map((name) => readName(name, driver.prefix));
  if (new Set(names).size < names.length) throw new InvalidOptionError('names', 'has a name twice: give each name once');
  const { oneScript = false, ...rest } = read(options, FIELDS);
  if (typeof oneScript !== 'boolean') throw new InvalidOptionError('oneScript', `is ${shown(oneScript)}: give true or false`);
  return new Lock(driver, names.join(', '), { ...LOCK.exclusive, names, oneScript }, readLockOptions(rest, defaults));
}
