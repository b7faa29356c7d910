/**
 * A client of node-redis 4, 5 or 6 (`createClient`).
 *
 * Commands use `sendCommand`, which adds no key prefix, with their own options, so that the client's type mapping, abort signal
 * and timeout don't affect them.
 */

import { ignore } from '../support/ignore.js';
import { closed, messageOf, toFailed, toReply, unavailable } from './results.js';
import type { Address, CallResult, DedicatedConnection, DedicatedOptions, Failed } from './link.js';
import { closeOnAbort } from './dedicated.js';
import type { OwnConnection } from './leaving.js';
import { addressOf, type PendingCommand, ReconnectingLink } from './reconnecting.js';
import type { PubSubConnection, PubSubListener } from './subscriber.js';

/** The part of a client that is used here, in any version of the library. */
export interface NodeRedis {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly isPubSubActive?: boolean;
  readonly options?: Options;
  /** The plain client behind one in legacy mode, whose own `sendCommand` takes a callback. Throws in any other mode. */
  readonly v4?: Sender;
  connect(): Promise<unknown>;
  disconnect(): Promise<unknown>;
  sendCommand(args: string[], options: object): Promise<unknown>;
  duplicate(options: object): NodeRedis;
  subscribe(channel: string, listener: (payload: string, channel: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Since 4.3. */
  ref?(): void;
  unref?(): void;
  on(event: string | symbol, listener: (...args: never[]) => void): unknown;
  off(event: string | symbol, listener: (...args: never[]) => void): unknown;
}

type Sender = Pick<NodeRedis, 'sendCommand'>;

interface Options {
  readonly legacyMode?: boolean;
  readonly RESP?: number;
  /** Set by the library itself. It differs from `disabled` only on RESP3. */
  readonly maintNotifications?: string;
  readonly socket?: { readonly host?: string; readonly port?: number | string; readonly path?: string };
}

/** Why this client can't be used; undefined if it can. */
export function nodeRedisProblem(client: NodeRedis): string | undefined {
  if (!client.isOpen) return 'is a node-redis client that is not connected: call its `connect()` first';
  if (isSubscriber(client)) return `is a node-redis client ${SUBSCRIBER_MODE}`;
  return undefined;
}

const SUBSCRIBER_MODE = 'in subscriber mode, which takes no commands: pass one that does not subscribe';

/** Whether the client is in subscriber mode. On RESP3, a client that subscribes still takes commands. */
function isSubscriber({ isPubSubActive, options }: NodeRedis): boolean {
  if (isPubSubActive !== true || options?.RESP === 3) return false;
  return (options?.maintNotifications ?? 'disabled') === 'disabled';
}

export class NodeRedisLink extends ReconnectingLink<string[]> {
  readonly library = 'node-redis';
  readonly #client: NodeRedis;
  readonly #sender: Sender;

  constructor(client: NodeRedis) {
    super(client, 'reconnecting', (listener) => openPubSub(client, listener));
    this.#client = client;
    this.#sender = (client.options?.legacyMode === true && client.v4) || client;
  }

  call(args: readonly string[]): Promise<CallResult> {
    return this.run(() => [...args]);
  }

  address(): string | undefined {
    const { host = 'localhost', port = 6379, path } = this.#client.options?.socket ?? {};
    return path || addressOf(host, port);
  }

  openDedicated({ closeOn }: DedicatedOptions): Promise<DedicatedConnection> {
    return openDedicated(this.#client, closeOn);
  }

  /** Opens a connection of our own, with the options of a client, to the server that its address leads to now. */
  static own(client: NodeRedis): OwnConnection {
    let isClosed = false;
    const duplicate = duplicateOf(client, undefined, (attempts) => (isClosed ? new Error('closed') : Math.min(attempts * 20, 500)));
    duplicate.on('error', ignore);
    const link = new NodeRedisLink(duplicate);
    let alive = false;
    const ref = (): void => void (alive ? duplicate.ref?.() : duplicate.unref?.());
    ref();
    // Some versions ignore `unref` while they open a socket.
    duplicate.on('connect', ref);
    duplicate.connect().catch(ignore);
    return {
      link,
      ref: (stay) => {
        alive = stay;
        ref();
        link.ref(stay);
      },
      close: () => {
        isClosed = true;
        void link.close();
        alive = false;
        ref();
        disconnect(duplicate, duplicate.isReady ? Promise.resolve() : new Promise((resolve) => duplicate.on('ready', resolve)));
      },
    };
  }

  protected override isReady(): boolean {
    return this.#client.isReady;
  }

  override isClosed(): boolean {
    return !this.#client.isOpen;
  }

  protected override problem(): string | undefined {
    return isSubscriber(this.#client) ? SUBSCRIBER_MODE : undefined;
  }

  protected override dispatch({ command, settle }: PendingCommand<string[]>): void {
    try {
      this.#sender.sendCommand(command, COMMAND_OPTIONS).then(
        (value) => settle({ reply: toReply(value) }),
        (error) => settle(failedBy(error)),
      );
    } catch (error) {
      settle(failedBy(error));
    }
  }

  /** The library fails commands that were written, but would send queued ones after the reconnect. Turns the command into a `PING`. */
  protected override defuse(args: string[]): void {
    args.splice(0, args.length, 'PING');
  }
}

// Read from `globalThis`, because this module is also loaded on hosts without `Buffer`.
const { Buffer } = globalThis;

/** Returns strings as bytes: in version 4 with `returnBuffers`, in later ones with the mapping of bulk and simple strings. */
export const COMMAND_OPTIONS = {
  returnBuffers: true,
  typeMapping: { 36: Buffer, 43: Buffer },
  timeout: undefined,
  abortSignal: undefined,
  asap: false,
};

/** The library's errors for commands that it does not accept. */
const NEVER_SENT = ['The client is offline', 'The queue is full'];

export function failedBy(error: unknown): Failed {
  const text = messageOf(error);
  if (text === 'The client is closed') return closed('the node-redis client was closed');
  return NEVER_SENT.includes(text) ? unavailable(text, error) : toFailed(error);
}

/** Makes another client with the options of this one. */
function duplicateOf(client: NodeRedis, moved?: Address, reconnectStrategy: (attempts: number) => number | Error = () => new Error('the connection ended')): NodeRedis {
  return client.duplicate({
    // By default the caller decides when to retry, with a new connection. (Older versions don't accept `false` here.)
    socket: { ...client.options?.socket, ...moved, reconnectStrategy },
    disableOfflineQueue: false,
    commandsQueueMaxLength: undefined,
    commandOptions: undefined,
    clientSideCache: undefined,
    emitInvalidate: undefined,
    maintNotifications: 'disabled',
    // With RESP3, lists of pairs come as lists in a list.
    RESP: 2,
    legacyMode: false,
  });
}

/** Opens a connection that carries no other commands. */
export async function openDedicated(client: NodeRedis, closeOn: AbortSignal, moved?: Address): Promise<DedicatedConnection> {
  const duplicate = duplicateOf(client, moved);
  duplicate.on('error', ignore);
  const connected = duplicate.connect();
  closeOnAbort(closeOn, () => {
    duplicate.unref?.();
    disconnect(duplicate, connected);
  });
  await connected;
  return {
    ref: (alive) => (alive ? duplicate.ref?.() : duplicate.unref?.()),
    call: (args) => duplicate.sendCommand([...args], COMMAND_OPTIONS).then((value) => ({ reply: toReply(value) }), failedBy),
  };
}

/** Opens a connection for subscriptions. */
export function openPubSub(client: NodeRedis, listener: PubSubListener): PubSubConnection {
  const subscriber = duplicateOf(client);
  let alive = false;
  const ref = (): void => (alive ? subscriber.ref?.() : subscriber.unref?.());
  subscriber.on('error', (error: unknown) => listener.ended(toFailed(error)));
  const onMessage = (payload: string, channel: string): void => listener.message(channel, payload);
  // Call this before it connects, because version 4 ignores it while a socket is being made.
  ref();
  const connected = subscriber.connect();
  connected.catch((error) => listener.ended(toFailed(error)));
  return {
    subscribe: (channel) => connected.then(() => subscriber.subscribe(channel, onMessage)).then(() => undefined, toFailed),
    unsubscribe: (channel) => connected.then(() => subscriber.unsubscribe(channel)),
    ping: () => connected.then(() => subscriber.sendCommand(['PING'], {})),
    close: () => {
      alive = false;
      ref();
      disconnect(subscriber, connected);
    },
    ref: (stay) => {
      alive = stay;
      ref();
    },
  };
}

/** Disconnects once connected, because the library would leave a socket open that is being made. A closed client rejects, which is fine. */
function disconnect(client: NodeRedis, connected: Promise<unknown>): void {
  connected.then(() => client.disconnect()).catch(ignore);
}
