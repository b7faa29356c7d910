/** A health indicator for `@nestjs/terminus`, which it doesn't import. */

import type { InjectionToken } from '@nestjs/common';

import { type Duration, isLeaseholdError, type LockManager } from '../index.js';
import type { Leaders } from './leader.js';

/** The options of {@link LockHealth.isHealthy}. */
export interface HealthOptions {
  /** How long a method with `@Leader` may go on after its term was lost. Default: `'10s'`. */
  readonly grace?: Duration | undefined;
}

/** The result of {@link LockHealth.isHealthy}, in the form of a `HealthIndicatorResult`. */
export type HealthResult<Key extends string> = Record<Key, { readonly status: 'up' } | { readonly status: 'down'; readonly code: string; readonly leaders?: string[] }>;

/** The name that is inspected. Any name would do: the server only has to answer. */
const PROBE = 'health';

/**
 * Tells whether the server of the locks answers, and whether the methods with `@Leader` end when their terms are lost. A
 * `LeaseholdModule` provides it.
 *
 * @example
 * ```ts
 * @Get('health')
 * @HealthCheck()
 * check() {
 *   return this.health.check([() => this.locks.isHealthy('locks')]);
 * }
 * ```
 */
export class LockHealth {
  readonly #locks: LockManager;
  readonly #leaders: Leaders;

  /** @internal */
  constructor(locks: LockManager, leaders: Leaders) {
    this.#locks = locks;
    this.#leaders = leaders;
  }

  /**
   * Resolves to `up` or `down` under this key. It asks the server once, or one server of a cluster, and ends within one
   * `responseTimeout` (2 s). `code` is the code of the error, such as `unreachable`. It is `closed` during a shutdown, and
   * `leading` if a method goes on although its term was lost longer than `grace` ago. `leaders` then has the names of the elections.
   *
   * Terminus 11 and newer read `down` from the result. For Terminus 10, throw a `HealthCheckError` with this result.
   *
   * @throws `invalid-option` for a bad `grace` (as a rejection).
   */
  async isHealthy<const Key extends string>(key: Key, { grace = '10s' }: HealthOptions = {}): Promise<HealthResult<Key>> {
    const leaders = this.#leaders.unhealthy(grace);
    const code = leaders.length > 0 ? 'leading' : await this.#problem();
    const down = { status: 'down' as const, code: code ?? '', ...(leaders.length > 0 && { leaders }) };
    return { [key]: code === undefined ? { status: 'up' } : down } as HealthResult<Key>;
  }

  /** The code of the error if the server doesn't answer as it should. The message is left out, because it can contain addresses. */
  async #problem(): Promise<string | undefined> {
    try {
      await this.#locks.inspect(PROBE);
    } catch (error) {
      if (!isLeaseholdError(error)) throw error;
      // Other data has the name, so the server has answered.
      if (error.code !== 'wrong-kind') return error.code;
    }
    return undefined;
  }
}

/** The token of a module's {@link LockHealth}, for `@Inject`. Without a name it is the class, which needs no `@Inject`. */
export function lockHealthToken(name?: string): InjectionToken<LockHealth> {
  return name === undefined ? LockHealth : `leasehold:health:${name}`;
}
