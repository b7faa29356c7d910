/** Who owns a reentrant lock. */

import { InvalidOptionError } from './errors.js';
import { shown } from './shown.js';

let last = 0;

/**
 * Whoever shows the same owner again while it holds a reentrant lock has it once more; every other owner waits, also in this
 * process. Make one for each piece of work that may take its own lock again: a request, a job.
 */
export class Owner {
  readonly #id = ++last;

  /** @internal */
  static idOf(owner: unknown): number | undefined {
    return typeof owner === 'object' && owner !== null && #id in owner ? owner.#id : undefined;
  }
}

export function idOf(owner: unknown): number {
  const id = Owner.idOf(owner);
  if (id === undefined) throw new InvalidOptionError('owner', `is ${shown(owner)}: give a \`new Owner()\``);
  return id;
}
