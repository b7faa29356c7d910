/**
 * Where a manager may be used: in workerd, the runtime of Cloudflare Workers, only in the request in which it was made.
 *
 * A socket and a timer there serve one request and stand still once that is answered. A manager that is kept in module scope would hang
 * the calls of later requests, so they are refused. A Durable Object is one such scope, however many requests it serves.
 */

import { UnsupportedError } from './errors.js';

const PROBLEM =
  'a manager that is kept in module scope of a Worker, where sockets and timers serve one request only: ' +
  'make the connection and the manager inside of the request handler, or in a Durable Object';

export class RequestScope {
  /** It belongs to the request in which it was made: others may not even look at it. */
  readonly #mark = isWorkerd() ? insideOfRequest(() => new AbortController().signal) : undefined;

  /** Why nothing can be done from here, if this is another request. */
  problem(): string | undefined {
    try {
      return this.#mark?.aborted === true ? PROBLEM : undefined;
    } catch {
      return PROBLEM;
    }
  }
}

/** Does what workerd refuses outside of a request, such as drawing random numbers. */
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
