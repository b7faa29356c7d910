/** A connection that opens its sockets on demand: one for commands and, for the first subscription, one for messages. */

import type { CustomConnection } from '../index.js';
import { setTimerRef } from '../support/host.js';
import { HOST_TIME, type Timer } from '../support/timers.js';

/** One socket with its protocol. It never retries and never reconnects. */
export interface Transport {
  /** Resolves once commands can be sent. */
  readonly opened: Promise<unknown>;
  send(args: readonly string[]): Promise<unknown>;
  /** Resolves once the server has acknowledged the subscription. */
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Fails everything that has no reply. May be called twice. */
  close(): void;
}

/** The events of a transport. They never come before the transport was returned. */
export interface TransportEvents {
  message(channel: string, payload: string): void;
  /** The socket has ended by itself. */
  ended(error: unknown): void;
}

export type OpenTransport = (events: TransportEvents) => Transport;

/**
 * A connection for `new LockManager(...)` to one server. Several managers can share it.
 *
 * It opens its sockets when they are needed. After a break, the next command opens a new one. No command is ever sent twice.
 */
export interface ServerConnection extends CustomConnection {
  /** Closes the sockets. Close the managers first. Later commands fail. */
  close(): void;
}

export class OnDemandConnection implements ServerConnection {
  readonly #commands: Socket;
  readonly #messages: Socket;
  readonly #subscriptions = new Map<string, Subscription>();

  constructor(address: string, open: OpenTransport) {
    this.#commands = new Socket(address, open, { message: () => {}, ended: () => {} });
    this.#messages = new Socket(address, open, {
      message: (channel, payload) => this.#subscriptions.get(channel)?.listeners.forEach(({ onMessage }) => onMessage(payload)),
      ended: (error) => this.#endSubscriptions(error),
    });
  }

  async call(args: string[]): Promise<unknown> {
    const transport = await this.#commands.get();
    return this.#commands.inTime(transport, transport.send(args));
  }

  async subscribe(channel: string, onMessage: (payload: string) => void, onEnd: (error?: unknown) => void): Promise<() => void> {
    const listener = { onMessage, onEnd };
    let subscription = this.#subscriptions.get(channel);
    if (subscription === undefined) {
      subscription = { listeners: new Set(), acknowledged: this.#begin(channel) };
      this.#subscriptions.set(channel, subscription);
    }
    const { acknowledged, listeners } = subscription;
    listeners.add(listener);
    try {
      await acknowledged;
    } catch (error) {
      if (this.#subscriptions.get(channel) === subscription) this.#remove(channel);
      throw error;
    }
    return () => this.#unsubscribe(channel, listener);
  }

  close(): void {
    this.#commands.close();
    this.#messages.close();
  }

  async #begin(channel: string): Promise<void> {
    const transport = await this.#messages.get();
    await this.#messages.inTime(transport, transport.subscribe(channel));
  }

  #unsubscribe(channel: string, listener: Listener): void {
    const subscription = this.#subscriptions.get(channel);
    if (subscription?.listeners.delete(listener) !== true || subscription.listeners.size > 0) return;
    this.#remove(channel);
    this.#messages.current?.unsubscribe(channel).catch(() => {});
  }

  /** The socket stays open only while it is needed, because hosts limit the number of sockets. */
  #remove(channel: string): void {
    this.#subscriptions.delete(channel);
    if (this.#subscriptions.size === 0) this.#messages.drop();
  }

  #endSubscriptions(error: unknown): void {
    const ended = [...this.#subscriptions.values()];
    this.#subscriptions.clear();
    for (const { listeners } of ended) listeners.forEach(({ onEnd }) => onEnd(error));
  }
}

interface Listener {
  onMessage(payload: string): void;
  onEnd(error?: unknown): void;
}

interface Subscription {
  readonly listeners: Set<Listener>;
  readonly acknowledged: Promise<void>;
}

/** How long a command waits for its socket. Shorter than the default response timeout, so that the engine can retry. */
const OPENED_WITHIN_MS = 1_000;
/** A socket that takes longer to open, or leaves a command unanswered for longer, is replaced. */
const ANSWERED_WITHIN_MS = 10_000;

/** A socket that is opened on demand, and its successors. */
class Socket {
  current: Transport | undefined;
  readonly #address: string;
  readonly #open: OpenTransport;
  readonly #events: TransportEvents;
  #closed = false;

  constructor(address: string, open: OpenTransport, events: TransportEvents) {
    this.#address = address;
    this.#open = open;
    this.#events = events;
  }

  /** Resolves to an open socket. Rejects with `sent: false`, which tells the manager that nothing was sent. */
  async get(): Promise<Transport> {
    if (this.#closed) throw neverSent('the connection was closed');
    let transport: Transport;
    try {
      transport = this.current ??= this.#start();
      await within(OPENED_WITHIN_MS, transport.opened);
    } catch (error) {
      // A refusal, such as a wrong password, is the server's answer to every command.
      if (error instanceof Refusal) throw error;
      throw neverSent(`can't connect to ${this.#address}: ${messageOf(error)}`, error);
    }
    // Another command may have dropped it meanwhile.
    if (this.current !== transport) throw neverSent(`the connection to ${this.#address} has ended`);
    return transport;
  }

  /** Replaces a socket that gives no answer. Its pending commands fail at once. */
  async inTime<T>(transport: Transport, answer: Promise<T>): Promise<T> {
    const timer = HOST_TIME.setTimeout(() => this.#end(transport, new Error(`no answer from ${this.#address}`)), ANSWERED_WITHIN_MS);
    // The engine's own timers keep the process alive while a call waits.
    setTimerRef(timer, 'unref');
    try {
      return await answer;
    } finally {
      HOST_TIME.clearTimeout(timer);
    }
  }

  /** Closes the socket. The next command opens another one. */
  drop(): void {
    const transport = this.current;
    this.current = undefined;
    transport?.close();
  }

  close(): void {
    this.#closed = true;
    if (this.current !== undefined) this.#end(this.current, new Error('the connection was closed'));
  }

  #start(): Transport {
    const ended = (error: unknown): void => this.#end(transport, error);
    const transport: Transport = this.#open({ message: this.#events.message, ended });
    this.inTime(transport, transport.opened).catch(ended);
    return transport;
  }

  #end(transport: Transport, error: unknown): void {
    if (this.current !== transport) return;
    this.drop();
    this.#events.ended(error);
  }
}

/** The server was reached, but can't be used. With the code `unsupported`, the manager gives up instead of trying again. */
export class Refusal extends Error {
  readonly code: 'unsupported' | undefined;

  constructor(message: string, code?: 'unsupported') {
    super(message);
    this.code = code;
  }
}

/** Refuses a server by the mode that its reply to `HELLO` names. */
export function checkMode(mode: unknown, address: string): void {
  if (mode === undefined || mode === 'standalone') return;
  throw new Refusal(`${address} runs in the mode \`${String(mode)}\`, and this connection needs a single server`, 'unsupported');
}

function neverSent(message: string, cause?: unknown): Error {
  return Object.assign(new Error(message, cause === undefined ? {} : { cause }), { sent: false });
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => (timer = HOST_TIME.setTimeout(() => reject(new Error(`not connected within ${ms / 1000} s`)), ms)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    HOST_TIME.clearTimeout(timer);
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
