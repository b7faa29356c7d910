/** The differences between hosts: Node, Bun, Deno, browsers and workerd, the runtime of Cloudflare Workers. */

import { UnsupportedError } from './errors.js';

/** `Symbol.asyncDispose`, or the symbol that compilers use on hosts without it. This changes nothing global. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose);

/** The method that formats an object for logs, such as `console.log(lease)` in Node, Deno and Bun. */
export const inspectSymbol: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** The host's function for showing values. The host passes it in, with its options. */
export type Inspect = (value: unknown, options: object) => string;

/** `Name { field: value }`, or `[Name]` below the maximum depth. Undefined fields are left out. */
export function formatObject(name: string, fields: object, depth: number, options: object, inspect: Inspect): string {
  if (depth < 0) return `[${name}]`;
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  return `${name} ${inspect(Object.fromEntries(known), options)}`;
}

/**
 * Sets whether a timer keeps the process alive. In browsers and workers a timer is a number and keeps nothing alive. In Deno it
 * is a number too, but keeps the process alive.
 */
export function setTimerAlive(handle: ReturnType<typeof setTimeout>, alive: boolean): void {
  if (typeof handle === 'object') {
    // On some hosts, timers have neither method.
    if (alive) handle.ref?.();
    else handle.unref?.();
    return;
  }
  const { Deno } = globalThis as { Deno?: { refTimer?(id: number): void; unrefTimer?(id: number): void } };
  if (alive) Deno?.refTimer?.(handle);
  else Deno?.unrefTimer?.(handle);
}

/** Runs a function once I/O and timers had their turn. */
export const afterPendingIo: (run: () => void) => void =
  typeof setImmediate === 'function' ? (run) => void setImmediate(run) : (run) => void setTimeout(run, 0);

/** Makes random bytes. */
export function randomBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  // In Node, `globalThis.crypto` loads on first use, which would delay the first lock by a millisecond.
  return process?.getBuiltinModule?.('node:crypto')?.randomFillSync(bytes) ?? crypto.getRandomValues(bytes);
}

/** Emits a process warning, which a program can silence. Hosts without process warnings get it on the console. */
export function warn(type: string, code: string, message: string): void {
  const { process, console } = globalThis as { process?: Partial<NodeJS.Process>; console?: Console };
  if (typeof process?.emitWarning === 'function') process.emitWarning(message, { type, code });
  else console?.warn(`${type}: ${message}`);
}

const WORKER_PROBLEM =
  'a manager in the module scope of a Worker, where a socket or timer serves only one request: ' +
  'make the connection and the manager inside the request handler, or in a Durable Object';

/**
 * In workerd, a manager works only in the request in which it was made.
 *
 * A socket or timer belongs to one request there, and stops when that request has been answered. With a manager in module scope,
 * the calls of later requests would hang, so they are refused. A Durable Object counts as one request, however many it serves.
 */
export class WorkerRequest {
  /** An object that belongs to the request in which it was made. workerd throws if another request reads it. */
  readonly #mark = isWorkerd() ? insideRequest(() => new AbortController().signal) : undefined;

  /** Why a call is refused, if this is another request. */
  problem(): string | undefined {
    try {
      return this.#mark?.aborted === true ? WORKER_PROBLEM : undefined;
    } catch {
      return WORKER_PROBLEM;
    }
  }
}

/** Runs `act`, which workerd refuses outside of a request, such as drawing random numbers. */
export function insideRequest<T>(act: () => T): T {
  try {
    return act();
  } catch (cause) {
    throw isWorkerd() ? new UnsupportedError(WORKER_PROBLEM, { cause }) : cause;
  }
}

function isWorkerd(): boolean {
  return 'WebSocketPair' in globalThis;
}
