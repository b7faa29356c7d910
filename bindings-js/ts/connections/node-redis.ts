/**
 * node-redis 4, 5 and 6: what `createClient` makes.
 *
 * Commands go by `sendCommand`, which knows no key prefix, and with options of their own, so that the client's type
 * mapping, abort signal and timeout don't touch them.
 */

import { closed, textOf, toFailed, toReply, unavailable } from './answer.js';
import type { Address, CallResult, Failed, OwnConnection } from './link.js';
import { onceOver } from './own.js';
import { addressOf, type Flight, ReconnectingLink } from './reconnecting.js';
import type { Channels, ChannelsListener } from './subscriber.js';

/** What is used of a client, whichever version of the library made it. */
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
  /** From 4.3 on. */
  ref?(): void;
  unref?(): void;
  on(event: string | symbol, listener: (...args: never[]) => void): unknown;
  off(event: string | symbol, listener: (...args: never[]) => void): unknown;
}

type Sender = Pick<NodeRedis, 'sendCommand'>;

interface Options {
  readonly legacyMode?: boolean;
  readonly RESP?: number;
  /** Set by the library itself, to something else than `disabled` on RESP3 only. */
  readonly maintNotifications?: string;
  readonly socket?: { readonly host?: string; readonly port?: number | string; readonly path?: string };
}

/** Why this client can't be used, if it can't. */
export function nodeRedisProblem(client: NodeRedis): string | undefined {
  if (!client.isOpen) return 'is a node-redis client that is not connected: call its `connect()` first';
  if (isSubscriber(client)) return `is a node-redis client ${SUBSCRIBER_MODE}`;
  return undefined;
}

const SUBSCRIBER_MODE = 'in subscriber mode, which takes no commands: bring one that does not subscribe';

/** On RESP3 a client that subscribes still takes commands. */
function isSubscriber({ isPubSubActive, options }: NodeRedis): boolean {
  if (isPubSubActive !== true || options?.RESP === 3) return false;
  return (options?.maintNotifications ?? 'disabled') === 'disabled';
}

export class NodeRedisLink extends ReconnectingLink<string[]> {
  readonly library = 'node-redis';
  readonly #client: NodeRedis;
  readonly #sender: Sender;

  constructor(client: NodeRedis) {
    super(client, 'reconnecting', (listener) => openChannels(client, listener));
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

  open(_key: string, _patience: number, over: AbortSignal): Promise<OwnConnection> {
    return openOwn(this.#client, over);
  }

  protected override isReady(): boolean {
    return this.#client.isReady;
  }

  protected override isClosed(): boolean {
    return !this.#client.isOpen;
  }

  protected override problem(): string | undefined {
    return isSubscriber(this.#client) ? SUBSCRIBER_MODE : undefined;
  }

  protected override dispatch({ command, settle }: Flight<string[]>): void {
    try {
      this.#sender.sendCommand(command, COMMAND_OPTIONS).then(
        (value) => settle({ reply: toReply(value) }),
        (error) => settle(failedBy(error)),
      );
    } catch (error) {
      settle(failedBy(error));
    }
  }

  /** The library ends what was written, but what it had only queued would leave after the reconnect. */
  protected override defuse(args: string[]): void {
    args.splice(0, args.length, 'PING');
  }
}

// Looked for, since this module is loaded where there is no `Buffer`, too.
const { Buffer } = globalThis;

/** Strings as bytes: version 4 by the first, later ones by the mapping of bulk and of simple strings. */
export const COMMAND_OPTIONS = {
  returnBuffers: true,
  typeMapping: { 36: Buffer, 43: Buffer },
  timeout: undefined,
  abortSignal: undefined,
  asap: false,
};

/** What the library answers before it takes a command at all. */
const NEVER_SENT = ['The client is offline', 'The queue is full'];

export function failedBy(error: unknown): Failed {
  const text = textOf(error);
  if (text === 'The client is closed') return closed('the node-redis client was closed');
  return NEVER_SENT.includes(text) ? unavailable(text, error) : toFailed(error);
}

/** Another client, made after this one. */
function copyOf(client: NodeRedis, moved?: Address): NodeRedis {
  return client.duplicate({
    // The caller decides when to try again, with a new connection. (Older versions know no `false` here.)
    socket: { ...client.options?.socket, ...moved, reconnectStrategy: () => new Error('the connection ended') },
    disableOfflineQueue: false,
    commandsQueueMaxLength: undefined,
    commandOptions: undefined,
    clientSideCache: undefined,
    emitInvalidate: undefined,
    maintNotifications: 'disabled',
    legacyMode: false,
  });
}

/** One that nothing else goes over. */
export async function openOwn(client: NodeRedis, over: AbortSignal, moved?: Address): Promise<OwnConnection> {
  const own = copyOf(client, moved);
  own.on('error', ignore);
  const connected = own.connect();
  onceOver(over, () => {
    own.unref?.();
    disconnect(own, connected);
  });
  await connected;
  return { call: (args) => own.sendCommand([...args], COMMAND_OPTIONS).then((value) => ({ reply: toReply(value) }), failedBy) };
}

/** One that subscribes. */
export function openChannels(client: NodeRedis, listener: ChannelsListener): Channels {
  const subscriber = copyOf(client);
  let alive = false;
  const ref = (): void => (alive ? subscriber.ref?.() : subscriber.unref?.());
  subscriber.on('error', (error: unknown) => listener.ended(toFailed(error)));
  const heard = (payload: string, channel: string): void => listener.message(channel, payload);
  // Before it connects: version 4 forgets it of a socket that is just being made.
  ref();
  const connected = subscriber.connect();
  connected.catch((error) => listener.ended(toFailed(error)));
  return {
    subscribe: (channel) => connected.then(() => subscriber.subscribe(channel, heard)).then(() => undefined, toFailed),
    unsubscribe: (channel) => connected.then(() => subscriber.unsubscribe(channel)),
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

/** Not before it is connected: version 4 would leave that connection open. Refused by one that is closed already. */
function disconnect(client: NodeRedis, connected: Promise<unknown>): void {
  connected.then(() => client.disconnect()).catch(ignore);
}

function ignore(): void {}
