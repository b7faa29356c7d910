/** The options of a semaphore. */

import { InvalidOptionError } from '../support/errors.js';
import { type LockOptions, read } from './options.js';
import { shown } from '../support/format.js';

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

const FIELDS = ['limit', 'permits', 'ttl', 'renew', 'maxHold', 'wait', 'waitForReplicas'] as const;
const MOST = 1_000_000;

/** Checks the numbers of the options. */
export function readSemaphoreOptions(options: unknown): { permits: number; limit: number } {
  const { limit, permits = 1, ...rest } = read(options, FIELDS);
  if (!isCount(limit) || limit > MOST) throw new InvalidOptionError('limit', `is ${shown(limit)}: choose 1 to 1,000,000 permits`);
  if (!isCount(permits) || permits > limit) {
    throw new InvalidOptionError('permits', `is ${shown(permits)}: choose 1 to the semaphore's limit, ${limit}`);
  }
  return { ...rest, permits, limit };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1;
}
