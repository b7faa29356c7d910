/** The names under which a module's parts can be injected. A module without a name has its parts under their classes. */

import type { InjectionToken } from '@nestjs/common';

import { LockManager } from '../index.js';

/**
 * The token of a module's lock manager, for `@Inject`. Without a name it is the class `LockManager`, which needs no `@Inject`.
 *
 * @example
 * ```ts
 * constructor(@Inject(lockManagerToken('reports')) private readonly locks: LockManager) {}
 * ```
 */
export function lockManagerToken(name?: string): InjectionToken<LockManager> {
  return name === undefined ? LockManager : `leasehold:locks:${name}`;
}

/** A token inside a module. */
export function innerToken(part: 'given' | 'options' | 'lifecycle' | 'first' | 'last', name: string | undefined): string {
  return name === undefined ? `leasehold:${part}` : `leasehold:${part}:${name}`;
}
