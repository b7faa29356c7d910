/** Connections that carry the commands of one operation only. The engine says when to use them, and limits the time. */

import { type Address, type CallResult, type DedicatedConnection, type Failed, type Link, toFailed } from '../connections/index.js';
import { soon } from '../support/timers.js';

/** The longest that a command may take besides the response timeout, in milliseconds: the greatest `timeout` of a `WAIT`. */
const LONGEST_WAIT = 60_000;

interface Dedicated {
  /** Undefined until the first command is answered. */
  connection: DedicatedConnection | undefined;
  /** Closes the connection, also one that is still being opened. */
  closing: AbortController;
  isClosed: boolean;
  lastFailure: Failed | undefined;
}

/**
 * The connections by their operations. The engine's outputs may call this: it uses a library only in a microtask, once the engine has
 * handled its input.
 */
export class DedicatedConnections {
  readonly #link: Link;
  readonly #timeout: number;
  readonly #settle: (op: number, result: CallResult) => void;
  readonly #byOperation = new Map<number, Dedicated>();

  /** `settle` gets the result of each command. */
  constructor(link: Link, responseTimeout: number, settle: (op: number, result: CallResult) => void) {
    this.#link = link;
    this.#timeout = responseTimeout + LONGEST_WAIT;
    this.#settle = settle;
  }

  /** Whether the library can open such connections. */
  get isSupported(): boolean {
    return this.#link.openDedicated !== undefined;
  }

  /** Sends a command for an operation. The first one opens a new connection, to the server that has the key. */
  send(op: number, key: string, args: readonly string[]): void {
    let dedicated = this.#byOperation.get(op);
    if (dedicated === undefined) {
      dedicated = { connection: undefined, closing: new AbortController(), isClosed: false, lastFailure: undefined };
      this.#byOperation.set(op, dedicated);
    }
    void this.#run(dedicated, key, args).then((result) => {
      if (dedicated.isClosed) return;
      dedicated.lastFailure = 'failure' in result ? result : undefined;
      this.#settle(op, result);
    });
  }

  /** Closes the connection of an operation. The result of its command is ignored. */
  close(op: number): void {
    const dedicated = this.#byOperation.get(op);
    if (dedicated === undefined || dedicated.isClosed) return;
    dedicated.isClosed = true;
    soon(() => dedicated.closing.abort());
  }

  /** Forgets an operation that has ended. */
  end(op: number): void {
    if (this.#byOperation.size === 0) return;
    this.close(op);
    this.#byOperation.delete(op);
  }

  endAll(): void {
    for (const op of this.#byOperation.keys()) this.end(op);
  }

  /** How the last command for an operation failed, if it did. */
  lastFailure(op: number): Failed | undefined {
    return this.#byOperation.get(op)?.lastFailure;
  }

  async #run(dedicated: Dedicated, key: string, args: readonly string[]): Promise<CallResult> {
    await undefined;
    try {
      if (dedicated.isClosed) return CLOSED;
      if (dedicated.connection !== undefined) return await dedicated.connection.call(args);
      const result = await this.#open(dedicated, key, args);
      // The first server may not have the slot. Its MOVED says which one does, so the second attempt goes there.
      const moved = movedTo(result);
      if (moved === undefined || dedicated.isClosed) return result;
      dedicated.closing.abort();
      dedicated.closing = new AbortController();
      return redirected(await this.#open(dedicated, key, args, moved));
    } catch (error) {
      return toFailed(error);
    }
  }

  async #open(dedicated: Dedicated, key: string, args: readonly string[], moved?: Address): Promise<CallResult> {
    const { signal: closeOn } = dedicated.closing;
    const connection = await this.#link.openDedicated?.({ key, timeout: this.#timeout, closeOn, moved });
    if (connection === undefined) return { failure: { kind: 'unsupported', text: "this connection can't open another one" } };
    dedicated.connection = connection;
    return connection.call(args);
  }
}

const CLOSED: Failed = { failure: { kind: 'closed', text: 'the engine has closed the connection' } };

/** `MOVED <slot> <host>:<port>`. */
function movedTo(result: CallResult): Address | undefined {
  if (!('failure' in result) || result.failure.kind !== 'refused') return undefined;
  const [, host, port] = /^MOVED \d+ (.+):(\d+)$/.exec(result.failure.text) ?? [];
  return host === undefined ? undefined : { host, port: Number(port) };
}

/** A slot that moves twice is not available now. */
function redirected(result: CallResult): CallResult {
  if (!('failure' in result) || result.failure.kind !== 'refused' || !/^(?:MOVED|ASK) /.test(result.failure.text)) return result;
  return { ...result, failure: { kind: 'unavailable', text: result.failure.text } };
}
