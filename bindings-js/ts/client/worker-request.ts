/**
 * In workerd, the runtime of Cloudflare Workers, a manager works only in the request in which it was made.
 *
 * A socket or timer belongs to one request there, and stops when that request has been answered. With a manager in module scope,
 * the calls of later requests would hang, so they are refused. A Durable Object counts as one request, however many it serves.
 */

import { UnsupportedError } from '../support/errors.js';

const PROBLEM =
  'a manager in the module scope of a Worker, where a socket or timer serves only one request: ' +
  'make the connection and the manager inside the request handler, or in a Durable Object';

export class RequestScope {
  /** An object that belongs to the request in which it was made. workerd throws if another request reads it. */
  readonly #mark = isWorkerd() ? insideOfRequest(() => new AbortController().signal) : undefined;

  /** Why a call is refused, if this is another request. */
  problem(): string | undefined {
    try {
      return this.#mark?.aborted === true ? PROBLEM : undefined;
    } catch {
      return PROBLEM;
    }
  }
}

/** Runs `act`, which workerd refuses outside of a request, such as drawing random numbers. */
export function insideOfRequest<T>(act: () => T): T {
  try {
    return act();
  } catch (cause) {
    throw isWorkerd() ? new UnsupportedError(PROBLEM, { cause }) : cause;
  }
}

function isWorkerd(): boolean {
  return 'WebSocketPair' in globalThis;
}
