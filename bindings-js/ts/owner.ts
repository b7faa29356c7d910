/** Who owns a reentrant lock. */

import { InvalidOptionError } from './errors.js';
import { shown } from './shown.js';

let last = 0;

/**
 * Whoever shows the same owner again while it holds a reentrant lock has it once more; every other owner waits, also in this
 * process. Make one for each piece of work that may take its own lock again: a request, a job.
 */
export class Owner {
  /** @internal */
  readonly id = ++last;
}

export function idOf(owner: unknown): number {
  const id = (owner as Owner | null | undefined)?.id;
  if (typeof owner === 'object' && typeof id === 'number' && Number.isSafeInteger(id) && id > 0) return id;
  throw new InvalidOptionError('owner', `is ${shown(owner)}: give a \`new Owner()\``);
}
