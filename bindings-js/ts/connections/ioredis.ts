/**
 * ioredis 5 and 6, a single server or a Cluster; for Sentinel see `ioredis-sentinel.ts`.
 *
 * Three options of the client are ignored. `keyPrefix`, because clients in other languages would not see it: use leasehold's
 * option `prefix`. `commandTimeout`, because the engine has its own timeout. `enableAutoPipelining`, because commands of one tick
 * go out in one write anyway.
 */

import { ignore } from '../support/ignore.js';
import { afterThisCode, soon } from '../support/timers.js';
import { LONGEST_REPLY, messageOf, refused, serverMessage, toFailed, toReply, unavailable } from './results.js';
import type { Answered, CallResult, DedicatedConnection, DedicatedOptions, Failed } from './link.js';
import { DuplicateClient } from './ioredis-duplicate.js';
import type { Command, IoRedis, Stream } from './ioredis-types.js';
import { closeOnAbort, pickNode } from './dedicated.js';
import type { OwnConnection } from './leaving.js';
import { addressOf, type PendingCommand, ReconnectingLink } from './reconnecting.js';
import type { PubSubConnection, PubSubListener } from './subscriber.js';

/** The most commands in one write. */
const BATCH_SIZE = 16;

/** Why this client can't be used; undefined if it can. */
export function ioRedisProblem(client: IoRedis): string | undefined {
  if (client.status === 'end') return 'is an ioredis client that was closed: pass an open one';
  const problem = wrongMode(client);
  return problem === undefined ? undefined : `is an ioredis client ${problem}`;
}

function wrongMode(client: IoRedis): string | undefined {
  if (client.mode === 'subscriber') return 'in subscriber mode, which takes no commands: pass one that does not subscribe';
  if (client.mode === 'monitor') return 'in monitor mode, which takes no commands: pass another one';
  return undefined;
}

export class IoRedisLink extends ReconnectingLink<Command> {
  readonly library = 'ioredis';
  readonly isCluster: boolean;
  declare readonly send?: (wire: string, answered: Answered) => void;
  readonly #client: IoRedis;
  readonly #batch: WriteBatch | undefined;
  #outgoing: PendingCommand<Command>[] = [];
  #replies: ReplyWatch | undefined;
  /** Whether the commands that are sent now are written soon anyway. */
  #isTogether = false;

  constructor(client: IoRedis) {
    super(client, 'close', (listener) => openPubSub(client, listener));
    this.#client = client;
    this.isCluster = client.isCluster === true;
    if (this.isCluster) return;
    // A cluster client needs to see the key.
    this.send = (wire, answered) => this.start(() => makeEncodedCommand(client, wire), answered);
    this.#batch = new WriteBatch(client);
  }

  override together(act: () => void): void {
    this.#isTogether = true;
    try {
      act();
    } finally {
      this.#isTogether = false;
      this.#flush();
    }
  }

  call(args: readonly string[]): Promise<CallResult> {
    return this.run(() => makeCommand(this.#client, args));
  }

  address(): string | undefined {
    const { isCluster, options } = this.#client;
    if (isCluster === true || options === undefined) return undefined;
    return options.path || addressOf(options.host, options.port);
  }

  async openDedicated({ closeOn, moved }: DedicatedOptions): Promise<DedicatedConnection> {
    const duplicate = new DuplicateClient(originalFor(this.#client, 'master'), { ...moved });
    const { client } = duplicate;
    duplicate.ref(true);
    closeOnAbort(closeOn, () => duplicate.close());
    try {
      await client.connect();
    } catch (error) {
      throw duplicate.lastError ?? error;
    }
    return {
      ref: (alive) => duplicate.ref(alive),
      call: ([name = '', ...args]) => Promise.resolve(client.callBuffer(name, ...args)).then((value) => ({ reply: toReply(restoreNumbers(value)) }), failedBy),
    };
  }

  /** Opens a connection of our own, with the options of a client, to the server that its address leads to now. */
  static own(client: IoRedis): OwnConnection {
    const duplicate = new DuplicateClient(client, { retryStrategy: (attempts: number) => Math.min(attempts * 20, 500) });
    const link = new IoRedisLink(duplicate.client);
    duplicate.client.connect().catch(ignore);
    return {
      link,
      ref: (alive) => {
        duplicate.ref(alive);
        link.ref(alive);
      },
      close: () => {
        void link.close();
        duplicate.destroy();
      },
    };
  }

  override async close(): Promise<void> {
    this.#replies?.leave();
    this.#replies = undefined;
    await super.close();
  }

  protected override isReady(): boolean {
    return this.#client.status === 'ready';
  }

  override isClosed(): boolean {
    return this.#client.status === 'end';
  }

  protected override connect(): void {
    if (this.#client.status === 'wait') this.#client.connect().catch(ignore);
  }

  protected override problem(): string | undefined {
    return wrongMode(this.#client);
  }

  /** ioredis emits no `error` if there is no listener, so read it from the stream. */
  protected override breakError(): unknown {
    return this.#client.stream?.errored ?? undefined;
  }

  /** ioredis writes each command separately. Here, all commands of one tick and of its microtasks go out in one write. */
  protected override dispatch(pending: PendingCommand<Command>): void {
    const waiting = this.#outgoing.push(pending);
    if (waiting === 1 && !this.#isTogether) afterThisCode(this.#flush);
    // Flush early, so that the server starts working while we prepare the next commands.
    else if (waiting === BATCH_SIZE) this.#flush();
  }

  protected override defuse(command: Command): void {
    defuse(command);
  }

  readonly #flush = (): void => {
    if (this.#outgoing.length === 0) return;
    const batch = this.#outgoing;
    this.#outgoing = [];
    const isReady = this.isReady();
    if (isReady) {
      this.#replies ??= ReplyWatch.join(this.#client);
      this.#replies.follow(this.#client.stream ?? undefined);
    }
    for (const pending of batch) {
      // It may have been interrupted.
      if (!this.pending.has(pending)) continue;
      if (isReady) this.#write(pending);
      else soon(() => pending.settle(this.notConnected()));
    }
    this.#batch?.flush();
  };

  #write(pending: PendingCommand<Command>): void {
    const { command, settle } = pending;
    const isDirect = this.#batch !== undefined && settleDirectly(pending);
    try {
      const sent = this.#client.sendCommand(command, this.#batch?.begin());
      // Tracing tools may wrap the promise.
      if (!isDirect || sent !== command.promise) Promise.resolve(sent).then((value) => settle(replied(value)), (error) => settle(failedBy(error)));
    } catch (error) {
      soon(() => settle(failedBy(error)));
    }
    if (this.#client.isCluster === true) preventResend(pending);
  }
}

const TOO_LONG = `a reply of more than ${LONGEST_REPLY / 1024 / 1024} MiB was not read to its end`;

/**
 * Watches the length of a client's replies, once for all managers that share the client. Not on a cluster, which doesn't expose the
 * connections to its nodes.
 */
class ReplyWatch {
  static readonly #all = new WeakMap<IoRedis, ReplyWatch>();
  readonly #client: IoRedis;
  #managers = 0;
  #stream: Stream | undefined;
  #oldest: unknown;
  /** The bytes received since the oldest pending command became the oldest. */
  #bytes = 0;

  private constructor(client: IoRedis) {
    this.#client = client;
  }

  static join(client: IoRedis): ReplyWatch {
    const joined = ReplyWatch.#all.get(client) ?? new ReplyWatch(client);
    ReplyWatch.#all.set(client, joined);
    joined.#managers++;
    return joined;
  }

  leave(): void {
    if (--this.#managers === 0) this.follow(undefined);
  }

  follow(stream: Stream | undefined): void {
    if (stream === this.#stream) return;
    this.#stream?.off('data', this.#received);
    this.#stream = stream;
    this.#oldest = undefined;
    stream?.on('data', this.#received);
  }

  /** Counts bytes that ioredis has received. If they did not complete the oldest command, they are part of its reply. */
  readonly #received = (bytes: Uint8Array): void => {
    const oldest = this.#client.commandQueue?.peekFront?.()?.command;
    if (oldest !== this.#oldest) {
      this.#oldest = oldest;
      this.#bytes = 0;
      return;
    }
    this.#bytes += bytes.length;
    // Replies to the user's commands may have any length.
    if (this.#bytes > LONGEST_REPLY && isOurCommand(oldest)) this.#stream?.destroy(new Error(TOO_LONG));
  };
}

/** Collects commands in place of the socket, so that they go out in one write. */
class WriteBatch {
  readonly #client: IoRedis;
  #text: string | undefined;

  constructor(client: IoRedis) {
    this.#client = client;
  }

  /** No other code may run from here to `flush`: the commands of other code would be written first and get our replies. */
  begin(): this {
    this.#text ??= '';
    return this;
  }

  flush(): void {
    const text = this.#text;
    this.#text = undefined;
    if (text !== undefined && text !== '') this.#client.stream?.write(text);
  }

  /** Called by ioredis, also when it resends commands after a reconnect. */
  write(data: string | Uint8Array): void {
    if (this.#text !== undefined && typeof data === 'string') this.#text += data;
    else this.#client.stream?.write(data);
  }
}

/** Lets ioredis make its object for a command, without the client's options and without sending it. */
function makeCommand(client: IoRedis, args: readonly string[]): Command {
  const [name = '', ...rest] = args;
  const bare = { options: {}, sendCommand: (command: Command) => command };
  // Use the method of the class. A proxy may have bound the client's method to the client, which would send the command.
  const { callBuffer = client.callBuffer } = Object.getPrototypeOf(client) as Partial<IoRedis>;
  // In lower case, because older versions find the keys and the slot only by the lower-case name.
  const command = callBuffer.call(bare as unknown as IoRedis, name.toLowerCase(), ...rest) as Command;
  command.setTimeout = ignore;
  return command;
}

/** Makes a command that ioredis writes exactly as the engine encoded it. To encode it in ioredis would be the slowest step. */
function makeEncodedCommand(client: IoRedis, wire: string): Command {
  let type = commandTypes.get(client);
  if (type === undefined) {
    type = encodedType(makeCommand(client, ['EVALSHA']).constructor as CommandType);
    commandTypes.set(client, type);
  }
  return new type(wire);
}

/** Whether a command was made by this module. */
function isOurCommand(command: Partial<Command> | undefined): boolean {
  return command?.setTimeout === ignore;
}

type CommandType = new (name: string, args: string[], options: object) => Command;
type EncodedType = new (wire: string) => Command;

/** The classes of our commands, by client, because several versions of ioredis may be loaded. */
const commandTypes = new WeakMap<IoRedis, EncodedType>();

const NOT_DECODED = { replyEncoding: null };

/** A class, because methods that are added to each command make it larger and slower. */
function encodedType(type: CommandType): EncodedType {
  class Encoded extends type {
    wire: string | undefined;

    constructor(wire: string) {
      super('evalsha', [], NOT_DECODED);
      this.wire = wire;
    }

    /** The method of ioredis encodes the name and the arguments. */
    override toWritable(): string {
      return this.wire ?? super.toWritable?.() ?? '';
    }
  }
  Encoded.prototype.setTimeout = ignore;
  return Encoded;
}

/** Turns a command into a `PING`, in case ioredis still sends it. */
function defuse(command: Command & { wire?: string | undefined }): void {
  command.name = 'ping';
  command.args = [];
  command.wire = undefined;
}

/**
 * Settles when ioredis hands over the reply: the command's promise would delay it by several microtasks. The promise still settles,
 * because tracing tools may wait for it. Returns false for a version of ioredis whose commands are different.
 */
function settleDirectly({ command, settle }: PendingCommand<Command>): boolean {
  const { promise, resolve, reject } = command;
  if (promise === undefined || typeof resolve !== 'function') return false;
  command.resolve = (value) => {
    resolve(value);
    settle(replied(value));
  };
  command.reject = (error) => {
    promise.catch(ignore);
    reject(error);
    // ioredis may refuse a command while it is given to it.
    soon(() => settle(failedBy(error)));
  };
  return true;
}

/** A cluster client follows redirections, which is fine, but also resends commands after a broken connection. This prevents that. */
function preventResend(pending: PendingCommand<Command>): void {
  const { command } = pending;
  const decide = command.reject;
  command.reject = (error) => {
    if (serverMessage(error) !== undefined) return decide.call(command, error);
    defuse(command);
    pending.settle(failedBy(error));
  };
}

function replied(value: unknown): CallResult {
  return { reply: toReply(restoreNumbers(value)) };
}

function failedBy(error: unknown): Failed {
  const text = messageOf(error);
  if (text.includes('enableOfflineQueue')) return unavailable(text, error);
  // The cluster client has asked several times while a slot moves, and each time the server has refused the command.
  if (/^Too many Cluster redirections.*: (?:TRYAGAIN|ASK|MOVED) /.test(text)) return refused(`TRYAGAIN ${text}`, error);
  if (text === 'Command timed out') return { failure: { kind: 'timed-out' }, cause: error };
  return toFailed(error);
}

/** Strings arrive as bytes, so a string here is a number that the client's option `stringNumbers` converted. */
function restoreNumbers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(restoreNumbers);
  return typeof value === 'string' ? Number(value) : value;
}

function openPubSub(client: IoRedis, listener: PubSubListener): PubSubConnection {
  const duplicate = new DuplicateClient(originalFor(client, 'all'), {});
  const subscriber = duplicate.client;
  const failed = (error: unknown): Failed => (error === undefined ? unavailable('the subscription ended') : toFailed(error));
  subscriber.on('end', () => listener.ended(failed(duplicate.lastError)));
  subscriber.on('message', (channel: string, payload: string) => listener.message(channel, payload));
  const connected = subscriber.connect();
  connected.catch((error) => listener.ended(failed(duplicate.lastError ?? error)));
  return {
    subscribe: (channel) =>
      connected.then(() => subscriber.subscribe(channel)).then(
        () => undefined,
        (error) => failed(serverMessage(error) === undefined ? (duplicate.lastError ?? error) : error),
      ),
    unsubscribe: (channel) => connected.then(() => subscriber.unsubscribe(channel)),
    ping: () => connected.then(() => subscriber.call('PING')),
    close: () => duplicate.close(),
    ref: (alive) => duplicate.ref(alive),
  };
}

/** The client to duplicate. In a cluster, any node receives all messages, and any primary knows where a key is. */
function originalFor(client: IoRedis, role: 'all' | 'master'): IoRedis {
  if (client.isCluster !== true) return client;
  const nodes = client.nodes?.(role) ?? [];
  const node = pickNode(nodes, ({ status }) => status === 'ready');
  if (node === undefined) throw new Error('the cluster has no node yet');
  return node;
}
