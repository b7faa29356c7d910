/**
 * Valkey GLIDE 2.x, a single server or a cluster.
 *
 * GLIDE reconnects by itself. When its connection breaks, it fails all open commands at once, and it queues no command for
 * longer than its `requestTimeout`. It does not report when a subscription breaks and comes back. In that time, waiters find
 * their grants by heartbeat.
 */

import { closed, messageOf, refused, toFailed, toReply } from './results.js';
import type { CallResult, DedicatedConnection, DedicatedOptions, Failed, Link, SubscriptionListener } from './link.js';
import { closeOnAbort } from './dedicated.js';
import { addressOf } from './reconnecting.js';
import { type PubSubConnection, type PubSubListener, Subscriber } from './subscriber.js';

/** The part of a client that is used here, in any version of the library. */
export interface Glide {
  readonly isClosed?: boolean;
  /** The configuration that it was made with. */
  readonly config?: { readonly addresses?: readonly { readonly host: string; readonly port?: number }[] };
  customCommand(args: string[], options: object): Promise<unknown>;
  subscribe?(channels: Set<string>, timeoutMs: number): Promise<unknown>;
  unsubscribe?(channels: Set<string>, timeoutMs: number): Promise<unknown>;
  close(): void;
  /** Only cluster clients have it. */
  fcallWithRoute?: unknown;
  /** The socket to GLIDE's own core, which holds the real connection. */
  readonly socket?: { ref(): void; unref(): void };
}

/** The class of a client. */
interface GlideClass {
  createClient?(config: object): Promise<Glide>;
}

/** Why this client can't be used; undefined if it can. */
export function glideProblem(client: Glide): string | undefined {
  return client.isClosed === true ? 'is a GLIDE client that was closed: pass an open one' : undefined;
}

/** Returns strings as bytes. */
const COMMAND_OPTIONS = { decoder: 0 };

export class GlideLink implements Link {
  readonly library = 'glide';
  readonly isCluster: boolean;
  readonly mayEnforceSlots: boolean;
  readonly #client: Glide;
  readonly #subscriber: Subscriber | undefined;
  readonly subscribe?: (channel: string, listener: SubscriptionListener) => void;
  readonly openDedicated?: (options: DedicatedOptions) => Promise<DedicatedConnection>;

  constructor(client: Glide) {
    this.#client = client;
    this.isCluster = typeof client.fcallWithRoute === 'function';
    this.mayEnforceSlots = !this.isCluster;
    const createClient = (client.constructor as GlideClass).createClient?.bind(client.constructor);
    const config = client.config;
    if (createClient === undefined || config === undefined) return;
    this.openDedicated = ({ key, timeout, closeOn }) =>
      openDedicated(createClient, { ...config, requestTimeout: timeout }, closeOn, this.isCluster ? key : undefined);
    // Before 2.3, a client could not subscribe after it was made.
    if (typeof client.subscribe !== 'function') return;
    const subscriber = new Subscriber((listener) => openPubSub(createClient, config, listener));
    this.#subscriber = subscriber;
    this.subscribe = (channel, listener) => subscriber.subscribe(channel, listener);
  }

  async call(args: readonly string[]): Promise<CallResult> {
    if (this.#client.isClosed === true) return closed('the GLIDE client was closed');
    try {
      return { reply: toReply(await this.#client.customCommand([...args], COMMAND_OPTIONS)) };
    } catch (error) {
      return failedBy(error);
    }
  }

  unsubscribe(channel: string): void {
    this.#subscriber?.unsubscribe(channel);
  }

  async close(): Promise<void> {
    this.#subscriber?.close();
  }

  ref(alive: boolean): void {
    this.#subscriber?.ref(alive);
  }

  address(): string | undefined {
    const addresses = this.#client.config?.addresses ?? [];
    return addresses.map(({ host, port = 6379 }) => addressOf(host, port)).join(', ') || undefined;
  }
}

/** GLIDE rewrites a server's error: `NoScriptError: text`, or `CODE: text` for a code that it doesn't know. */
const SERVER_ERROR = /^(?:An error was signalled by the server: - )?([A-Za-z]+): ([^]*)$/;
const CODES: Readonly<Record<string, string>> = {
  ResponseError: 'ERR',
  NoScriptError: 'NOSCRIPT',
  BusyLoadingError: 'LOADING',
  ReadOnly: 'READONLY',
  MasterDown: 'MASTERDOWN',
  ClusterDown: 'CLUSTERDOWN',
  TryAgain: 'TRYAGAIN',
  CrossSlot: 'CROSSSLOT',
  Moved: 'MOVED',
  Ask: 'ASK',
  NotBusy: 'NOTBUSY',
  PermissionDenied: 'NOPERM',
  ExecAbortError: 'EXECABORT',
};

function failedBy(error: unknown): Failed {
  const text = messageOf(error);
  if (text === 'timed out') return { failure: { kind: 'timed-out' }, cause: error };
  const [, kind = '', detail = ''] = SERVER_ERROR.exec(text) ?? [];
  const code = CODES[kind] ?? (/^[A-Z][A-Z0-9_]+$/.test(kind) ? kind : undefined);
  if (code === undefined) return toFailed(error);
  return refused(`${code} ${detail}`, error);
}

/** A cluster client has a connection to each server. Routing by the key sends all commands over the same one. */
async function openDedicated(
  createClient: (config: object) => Promise<Glide>,
  config: object,
  closeOn: AbortSignal,
  key: string | undefined,
): Promise<DedicatedConnection> {
  const client = await createClient({ ...config, pubsubSubscriptions: undefined });
  closeOnAbort(closeOn, () => client.close());
  const options = key === undefined ? COMMAND_OPTIONS : { ...COMMAND_OPTIONS, route: { type: 'primarySlotKey', key } };
  return { call: (args) => client.customCommand([...args], options).then((value) => ({ reply: toReply(value) }), failedBy) };
}

const RESP3 = 0;
const EXACT = 0;

/** All messages of a client go to one callback, so the user's client can't be used for our messages. */
function openPubSub(createClient: (config: object) => Promise<Glide>, config: object, listener: PubSubListener): PubSubConnection {
  let closed = false;
  let alive = false;
  let subscriber: Glide | undefined;
  const ref = (): void => void (alive ? subscriber?.socket?.ref() : subscriber?.socket?.unref());
  const callback = ({ channel, message }: { channel: unknown; message: unknown }): void => listener.message(String(channel), String(message));
  const pubsubSubscriptions = { channelsAndPatterns: { [EXACT]: new Set() }, callback };
  const open = async (): Promise<Glide> => {
    subscriber = await createClient({ ...config, protocol: RESP3, pubsubSubscriptions });
    ref();
    if (closed) subscriber.close();
    return subscriber;
  };
  const opened = open();
  opened.catch((error) => listener.ended(failedBy(error)));
  return {
    subscribe: (channel) => opened.then((client) => client.subscribe?.(new Set([channel]), FOREVER)).then(() => undefined, failedBy),
    unsubscribe: (channel) => opened.then((client) => client.unsubscribe?.(new Set([channel]), FOREVER)),
    close: () => {
      closed = true;
      subscriber?.close();
    },
    ref: (stay) => {
      alive = stay;
      ref();
    },
  };
}

const FOREVER = 0;
