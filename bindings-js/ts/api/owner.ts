/** The owner of a reentrant lock. */

import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';

let last = 0;

/**
 * The owner of a reentrant lock. The same owner can acquire a lock again while it holds it; every other owner waits, also in
 * this process. Make one for each piece of work that may take its own lock again, such as a request or a job. The same
 * `Owner` on another manager counts as another owner.
 *
 * @example
 * ```ts
 * const account = locks.reentrant('account:7', new Owner());
 * await account.run(async () => {
 *   await account.run(async (lease) => console.log(lease.holdCount)); // 2
 * });
 * ```
 */
export class Owner {
  readonly #id = ++last;

  /** @internal */
  static idOf(owner: unknown): number | undefined {
    return typeof owner === 'object' && owner !== null && #id in owner ? owner.#id : undefined;
  }
}

export function ownerId(owner: unknown): number {
  const id = Owner.idOf(owner);
  if (id === undefined) throw new InvalidOptionError('owner', `is ${formatValue(owner)}: give a \`new Owner()\``);
  return id;
}
