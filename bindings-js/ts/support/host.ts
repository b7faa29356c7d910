/** The differences between hosts: Node, Bun, Deno, browsers and workerd, the runtime of Cloudflare Workers. */

import { UnsupportedError } from './errors.js';

/** `Symbol.asyncDispose`, or the symbol that compilers use on hosts without it. No global object is changed. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose);

/** The method that formats an object for logs, such as `console.log(lease)` in Node, Deno and Bun. */
export const inspectSymbol: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** What the host passes to that method: how deep it may look, its options, and its function that formats values. */
export type InspectArguments = [depth: number, options: object, inspect: (value: unknown, options: object) => string];

/** `Name { field: value }`, or `[Name]` below the maximum depth. Undefined fields are left out. */
export function formatObject(name: string, fields: object, [depth, options, inspect]: InspectArguments): string {
  if (depth < 0) return `[${name}]`;
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  return `${name} ${inspect(Object.fromEntries(known), options)}`;
}

/**
 * Lets a timer keep the process alive, or not. In browsers and workers a timer is a number and keeps nothing alive. In Deno it is
 * a number too, but keeps the process alive.
 */
export function setTimerRef(timer: ReturnType<typeof setTimeout> | { ref(): void; unref(): void }, ref: 'ref' | 'unref'): void {
  // On some hosts, timers have neither method.
  if (typeof timer === 'object') return void timer[ref]?.();
  const { Deno } = globalThis as { Deno?: { refTimer?(id: number): void; unrefTimer?(id: number): void } };
  Deno?.[`${ref}Timer` as const]?.(timer);
}

/** Makes random bytes. */
export function randomBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  // In Node, `globalThis.crypto` loads on first use, which would delay the first lock by a millisecond.
  return process?.getBuiltinModule?.('node:crypto')?.randomFillSync(bytes) ?? crypto.getRandomValues(bytes);
}

/** Emits a process warning, which a program can silence. Hosts without process warnings get it on the console. */
export function emitWarning({ type, code, message }: { type: string; code: string; message: string }): void {
  const { process, console } = globalThis as { process?: Partial<NodeJS.Process>; console?: Console };
  if (typeof process?.emitWarning === 'function') process.emitWarning(message, { type, code });
  else console?.warn(`${type}: ${message}`);
}

/** What this package uses of a channel of `node:diagnostics_channel`. */
export interface DiagnosticsChannel {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
}

/** A channel of `node:diagnostics_channel`. Undefined on hosts without that module, and in Node before 20.16 and 22.3. */
export function diagnosticsChannel(name: string): DiagnosticsChannel | undefined {
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  return process?.getBuiltinModule?.('node:diagnostics_channel')?.channel(name);
}

/**
 * `<host>/<process id>` where the host tells both, else the name of the runtime. Deno is asked for nothing that the program has
 * not permitted, because it would ask its user.
 */
export function defaultLabel(): string {
  const { Deno, navigator, process } = globalThis as {
    Deno?: { pid?: number; hostname?(): string; permissions?: { querySync?(descriptor: object): { state: string } } };
    navigator?: { userAgent?: string };
    process?: Partial<NodeJS.Process>;
  };
  const tell = <T>(ask: () => T): T | undefined => {
    try {
      return ask();
    } catch {
      return undefined;
    }
  };
  if (isWorkerd()) return 'Cloudflare-Workers';
  if (Deno !== undefined) {
    const mayAsk = tell(() => Deno.permissions?.querySync?.({ name: 'sys', kind: 'hostname' }).state === 'granted');
    return labelOf((mayAsk === true ? tell(() => Deno.hostname?.()) : undefined) ?? 'deno', Deno.pid);
  }
  const host = tell(() => process?.getBuiltinModule?.('node:os')?.hostname()) ?? tell(() => process?.release?.name);
  return labelOf(host ?? navigator?.userAgent?.split('/')[0] ?? 'browser', process?.pid);
}

function labelOf(host: string, pid: number | undefined): string {
  const name = host.replace(/[^!-~]/g, '').slice(0, 100);
  return pid === undefined ? name : `${name}/${pid}`;
}

const WORKER_PROBLEM =
  'a manager in the module scope of a Worker, where a socket or timer serves only one request: ' +
  'make the connection and the manager inside the request handler, or in a Durable Object';

/**
 * The HTTP request that a client belongs to, in workerd.
 *
 * There, a socket or timer belongs to one request, and stops when that request has been answered. With a manager in module scope,
 * the operations of later requests would hang, so they are refused. A Durable Object counts as one request, however many it
 * serves.
 */
export class WorkerRequest {
  /** An object that belongs to the request in which it was made. workerd throws if another request reads it. */
  readonly #mark = isWorkerd() ? insideRequest(() => new AbortController().signal) : undefined;

  /** Why an operation is refused. Undefined if this is the same request. */
  problem(): string | undefined {
    try {
      return this.#mark?.aborted === true ? WORKER_PROBLEM : undefined;
    } catch {
      return WORKER_PROBLEM;
    }
  }
}

/** Runs `act`. workerd refuses some acts outside of a request, such as drawing random numbers. */
export function insideRequest<T>(act: () => T): T {
  try {
    return act();
  } catch (cause) {
    throw isWorkerd() ? new UnsupportedError(WORKER_PROBLEM, { cause }) : cause;
  }
}

export function isWorkerd(): boolean {
  return 'WebSocketPair' in globalThis;
}
