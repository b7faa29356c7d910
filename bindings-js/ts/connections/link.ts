/** The interface between the driver and the adapters: one connection that runs flat commands and, maybe, subscribes. */

/** One part of a reply. */
export type Scalar = null | number | string | Uint8Array;

/** A reply as the engine reads it: nothing here nests. */
export type Reply = Scalar | readonly Scalar[];

/** Why a command has no answer. */
export type Failure =
  /** The server's own error text, its code word first: `NOSCRIPT ...`, `WRONGTYPE ...`, `NOAUTH ...`. */
  | { readonly kind: 'refused'; readonly text: string }
  /** Certainly not applied: the command was never written. */
  | { readonly kind: 'unavailable'; readonly text: string }
  /** Maybe applied: the connection broke before the answer. */
  | { readonly kind: 'interrupted'; readonly text: string }
  /** Maybe applied: no answer in time. */
  | { readonly kind: 'timed-out' }
  /** This connection can't do it at all. */
  | { readonly kind: 'unsupported'; readonly text: string }
  /** The connection was closed by its owner and does not come back. Not applied. */
  | { readonly kind: 'closed'; readonly text: string };

/** What went wrong; `cause` is the library's own error, kept for `error.cause`. */
export interface Failed {
  readonly failure: Failure;
  readonly cause?: unknown;
}

/** How a command ended. */
export type CallResult = { readonly reply: Reply } | Failed;

/** What a subscription tells. Never called from within `subscribe`, `unsubscribe` or `close`. */
export interface SubscriptionListener {
  /** The server has acknowledged the subscription. */
  acknowledged(): void;
  message(payload: string): void;
  /** The subscription has ended, or can't be made now. Whoever wants it again calls `subscribe` again. */
  broken(failure: Failure, cause?: unknown): void;
}

/** A connection that nothing else goes over. */
export interface OwnConnection {
  call(args: readonly string[]): Promise<CallResult>;
}

/** Where a server is. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A connection of the user's, of whatever library. */
export interface Link {
  /** For messages. */
  readonly library: 'ioredis' | 'node-redis' | 'glide' | 'custom';

  /** Whether commands go to more than one server, by their keys. */
  readonly isCluster?: boolean;

  /**
   * Sends one command. Never throws and never rejects: a failure is a value.
   *
   * If the connection breaks while the command is out it ends as `interrupted` at once, even where the library would send
   * it again by itself. Commands of one tick leave in one write where the library can.
   */
  call(args: readonly string[]): Promise<CallResult>;

  /** The same for a command that is put together already, as it goes over the wire; only where the library lets that through. */
  send?(wire: string): Promise<CallResult>;

  /**
   * Subscribes to a channel, beside others, over one connection of the adapter's own. A subscription that is there is told
   * again; where an attempt is still under way that connection is given up for a new one.
   * Absent where there is no pub/sub: then the engine polls.
   */
  subscribe?(channel: string, listener: SubscriptionListener): void;

  /** Ends the subscription to a channel: the listener hears nothing more. */
  unsubscribe?(channel: string): void;

  /**
   * Opens a connection like the user's, to the server that has `key`: to `moved`, where a cluster's server said so. A command on it may take so
   * many milliseconds. It is closed when it is `over`, also where it comes later. Rejects with the library's error. Absent where the library gives none.
   */
  open?(key: string, patience: number, over: AbortSignal, moved?: Address): Promise<OwnConnection>;

  /** Closes what the adapter opened, never what the user brought, and removes every listener it added. */
  close(): Promise<void>;

  /** Where the server is, for messages: `127.0.0.1:6379`, if the library tells. */
  address?(): string | undefined;

  /** The library's own error since it has no connection; none while it has one. */
  lastError?(): unknown;

  /** Whether the adapter's own sockets keep the process alive; they don't until told. The user's are left alone. */
  ref?(alive: boolean): void;
}
