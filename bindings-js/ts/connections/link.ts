/** The interface between the driver and the adapters: one connection that runs commands and perhaps subscribes. */

import type { Failure } from '../support/errors.generated.js';
import { HOST_TIME, PROGRAM_TIMERS } from '../support/timers.js';

export type { Failure };

/** One part of a reply. */
export type Scalar = null | number | string | Uint8Array;

/** A reply as the engine reads it: a scalar or a flat list of scalars. */
export type Reply = Scalar | readonly Scalar[];

/** A failed command. `cause` is the library's own error, which becomes `error.cause`. */
export interface Failed {
  readonly failure: Failure;
  readonly cause?: unknown;
}

/** The result of a command. */
export type CallResult = { readonly reply: Reply } | Failed;

/** Receives the result of a command. */
export type Answered = (result: CallResult) => void;

/** Receives the events of a subscription. The link never calls it from within `subscribe`, `unsubscribe` or `close`. */
export interface SubscriptionListener {
  /** The server has acknowledged the subscription. */
  acknowledged(): void;
  message(payload: string): void;
  /** The subscription has ended or failed. To renew it, call `subscribe` again. */
  broken(failure: Failure, cause?: unknown): void;
}

/** A connection that carries no other commands. */
export interface DedicatedConnection {
  /** As {@link Link.call}. Calls that are made together go out together, and are answered in their order. */
  call(args: readonly string[]): Promise<CallResult>;
  /** Sets whether it keeps the process alive; at first it does. Absent if the library doesn't tell. */
  ref?(alive: boolean): void;
}

export interface DedicatedOptions {
  /** The connection leads to the server that has this key. */
  readonly key: string;
  /** How long a command on it may take, in milliseconds. */
  readonly timeout: number;
  /** Closes the connection when it aborts, also if the connection opens after that. */
  readonly closeOn: AbortSignal;
  /** The server to connect to instead, if a cluster redirected there. */
  readonly moved?: Address | undefined;
}

/** The address of a server. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** The time of a link in memory, which takes the place of the host's clocks. */
export interface LinkTime {
  /** In milliseconds. It never goes back. */
  readonly elapsed: number;
  /** Calls the listener when somebody has moved the time forward by hand. Returns a function that stops it. */
  onAdvance(listener: () => void): () => void;
}

/** A connection of the user, of any library. */
export interface Link {
  /** The library's name, for logs and error messages. */
  readonly library: 'ioredis' | 'node-redis' | 'glide' | 'custom' | 'memory';

  /** Set for a server in memory. There is no I/O to wait for then, so nothing but a promise or its own timer delays a call. */
  readonly time?: LinkTime;

  /** Whether it changes to another server by itself when its server becomes a replica. */
  readonly leavesReplicas?: boolean;

  /** Whether commands go to several servers, chosen by key. */
  readonly isCluster?: boolean;

  /** Whether the server may enforce the slots of a cluster at one address, so that it has to be asked. */
  readonly mayEnforceSlots?: boolean;

  /**
   * Sends one command. Never throws and never rejects: a failure is a value.
   *
   * If the connection breaks before the reply, the command ends as `interrupted` at once, even if the library would resend it.
   * Commands of one tick go out in one write if the library can do that.
   */
  call(args: readonly string[]): Promise<CallResult>;

  /**
   * The same for a command that is already encoded in RESP. `answered` gets the result once `send` has returned: a promise would make a
   * lock slower. Absent if the library can't send such commands.
   */
  send?(wire: string, answered: Answered): void;

  /** Writes the commands that `act` sends as soon as it returns, and not only once the code that runs now has ended. */
  together?(act: () => void): void;

  /**
   * Subscribes to a channel. One connection of the adapter carries all channels. If the channel is already subscribed, the
   * listener is replaced and gets `acknowledged` again. If an earlier attempt is still pending, its connection is replaced by a
   * new one. Absent if there is no pub/sub: then the engine polls.
   */
  subscribe?(channel: string, listener: SubscriptionListener): void;

  /** Ends the subscription to a channel. The listener is not called again. */
  unsubscribe?(channel: string): void;

  /**
   * Opens a connection like the user's. Rejects with the library's error. Absent if the library can't open such a connection.
   */
  openDedicated?(options: DedicatedOptions): Promise<DedicatedConnection>;

  /** Closes the adapter's own connections, never the user's, and removes all its listeners. */
  close(): Promise<void>;

  /** The server's address for messages, such as `127.0.0.1:6379`, if the library exposes it. */
  address?(): string | undefined;

  /** Whether the owner has closed the connection. Absent if the library doesn't tell. */
  isClosed?(): boolean;

  /** The library's error while it has no connection; undefined while it has one. */
  lastError?(): unknown;

  /**
   * Calls the listener whenever a broken connection works again, with the time that it was broken, in milliseconds. Absent if
   * the library doesn't tell. `brokenAt` is when it broke, if it is broken already.
   */
  onReconnect?(listener: (down: number) => void, brokenAt?: number): void;

  /** Sets whether the adapter's own sockets keep the process alive; at first they don't. It doesn't change the user's sockets. */
  ref?(alive: boolean): void;
}

/** The timers and the clock that a link's calls are measured by. */
export type Time = typeof HOST_TIME;

/** A link to a server in memory uses the program's time, which a test may fake. Any other link uses the host's. */
export function timeOf({ time }: Link): Time {
  return time === undefined ? HOST_TIME : { ...PROGRAM_TIMERS, now: () => time.elapsed };
}
