/** A link to a server that refuses scripts: each call of a script becomes a transaction, on a connection of its own. */

import { type CallResult, type DedicatedConnection, type DedicatedOptions, type Failed, isOfReplica, type Link, type SubscriptionListener } from '../connections/index.js';
import { readAnswer, readCommands, ScriptCall, writeReplies } from '../server/index.js';
import { setTimerRef } from '../support/host.js';
import { HOST_TIME } from '../support/timers.js';

/** So many times in a row, other clients may change the keys of a transaction. */
const MOST_ATTEMPTS = 100;
/** A connection that leaves a transaction unanswered for longer is replaced, in milliseconds. */
const ANSWERED_WITHIN = 10_000;

const encoder = new TextEncoder();

export class TransactionLink implements Link {
  readonly library;
  readonly leavesReplicas = true;
  readonly subscribe?: (channel: string, listener: SubscriptionListener) => void;
  readonly unsubscribe?: (channel: string) => void;
  readonly onReconnect?: (listener: (down: number) => void, brokenAt?: number) => void;
  readonly #link: Link;
  readonly #transactions: Transactions;

  constructor(link: Link) {
    this.#link = link;
    this.library = link.library;
    if (link.subscribe !== undefined) this.subscribe = (channel, listener) => link.subscribe?.(channel, listener);
    if (link.unsubscribe !== undefined) this.unsubscribe = (channel) => link.unsubscribe?.(channel);
    if (link.onReconnect !== undefined) this.onReconnect = (listener, brokenAt) => link.onReconnect?.(listener, brokenAt);
    this.#transactions = new Transactions(link);
  }

  call(args: readonly string[]): Promise<CallResult> {
    const call = scriptCall(args);
    return call === undefined ? this.#link.call(args) : this.#transactions.run(call);
  }

  async openDedicated(options: DedicatedOptions): Promise<DedicatedConnection> {
    const connection = await openLike(this.#link, options);
    return {
      call: (args) => {
        const call = scriptCall(args);
        return call === undefined ? connection.call(args) : runOn(connection, call);
      },
    };
  }

  async close(): Promise<void> {
    this.#transactions.close();
    await this.#link.close();
  }

  address(): string | undefined {
    return this.#link.address?.();
  }

  lastError(): unknown {
    return this.#link.lastError?.();
  }

  ref(alive: boolean): void {
    this.#link.ref?.(alive);
  }
}

/** The connection for transactions, which are made one after the other. */
class Transactions {
  readonly #link: Link;
  #connection: { readonly opened: Promise<DedicatedConnection>; readonly closing: AbortController } | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #underWay = 0;
  #closed = false;

  constructor(link: Link) {
    this.#link = link;
  }

  run(call: ScriptCall): Promise<CallResult> {
    this.#underWay++;
    this.#applyRef();
    const result = this.#last.then(() => this.#run(call)).finally(() => {
      call.free();
      this.#underWay--;
      this.#applyRef();
    });
    this.#last = result;
    return result;
  }

  close(): void {
    this.#closed = true;
    this.#drop();
  }

  async #run(call: ScriptCall): Promise<CallResult> {
    const { library } = this.#link;
    if (this.#closed || this.#link.isClosed?.() === true) return { failure: { kind: 'closed', text: `the ${library} client was closed` } };
    let connection: DedicatedConnection;
    try {
      connection = await (this.#connection ??= this.#open()).opened;
    } catch (cause) {
      this.#drop();
      return { failure: { kind: 'unavailable', text: String(cause) }, cause };
    }
    const timer = HOST_TIME.setTimeout(() => this.#drop(), ANSWERED_WITHIN);
    setTimerRef(timer, 'unref');
    const result = await runOn(connection, call);
    HOST_TIME.clearTimeout(timer);
    // The next connection goes to the server that the address leads to then.
    if ('failure' in result && (result.failure.kind !== 'refused' || isOfReplica(result.failure.text))) this.#drop();
    return result;
  }

  #open(): { opened: Promise<DedicatedConnection>; closing: AbortController } {
    const closing = new AbortController();
    const opened = openLike(this.#link, { key: '', timeout: ANSWERED_WITHIN, closeOn: closing.signal });
    opened.then(this.#applyRef, () => {});
    return { opened, closing };
  }

  /** Closes the connection. The next transaction opens another one. */
  #drop(): void {
    this.#connection?.closing.abort();
    this.#connection = undefined;
  }

  /** The connection keeps the process alive while a call is under way. */
  readonly #applyRef = (): void => {
    const alive = this.#underWay > 0;
    this.#connection?.opened.then((connection) => connection.ref?.(alive), () => {});
  };
}

async function openLike(link: Link, options: DedicatedOptions): Promise<DedicatedConnection> {
  const connection = await link.openDedicated?.(options);
  if (connection === undefined) throw new Error("this client can't open another connection");
  return connection;
}

/** The call of a script that a command makes, if it makes one. */
function scriptCall(args: readonly string[]): ScriptCall | undefined {
  if (args[0] !== 'EVALSHA' && args[0] !== 'EVAL') return undefined;
  return ScriptCall.of(encoder.encode(args.join('')), Uint32Array.from(args, (word) => encoder.encode(word).length));
}

async function runOn(connection: DedicatedConnection, call: ScriptCall): Promise<CallResult> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const read = await callAll(connection, call.reads());
    if ('failure' in read) return { ...read, failure: { kind: 'unavailable', text: textOf(read) } };
    const writes = call.run(read.replies);
    if (isError(writes)) return readAnswer(writes).result;
    const written = await callAll(connection, writes);
    if ('failure' in written) return { ...written, failure: { kind: 'interrupted', text: textOf(written) } };
    const end = call.end(written.replies);
    if (end[0] === UNCLEAR) return { failure: { kind: 'interrupted', text: 'the server did not answer EXEC as expected' } };
    if (end.length > 0) return finish(connection, end);
  }
  return { failure: { kind: 'unavailable', text: "other clients changed the lock's keys again and again" } };
}

const ERROR = '-'.charCodeAt(0);
const UNCLEAR = '?'.charCodeAt(0);

function isError(bytes: Uint8Array): boolean {
  return bytes[0] === ERROR;
}

/** Publishes the messages, which are only hints, and returns the reply. */
async function finish(connection: DedicatedConnection, end: Uint8Array): Promise<CallResult> {
  const { result, messages } = readAnswer(end);
  await Promise.all(messages.map(({ channel, payload }) => connection.call(['PUBLISH', channel, payload])));
  return result;
}

/** Sends the commands together. A server's error is one of the replies; any other failure is returned in their place. */
async function callAll(connection: DedicatedConnection, commands: Uint8Array): Promise<{ replies: Uint8Array } | Failed> {
  const results = await Promise.all(readCommands(commands).map((args) => connection.call(args)));
  const failed = results.find((result): result is Failed => 'failure' in result && result.failure.kind !== 'refused');
  return failed ?? { replies: writeReplies(results) };
}

function textOf({ failure }: Failed): string {
  return 'text' in failure ? failure.text : 'no answer in time';
}
