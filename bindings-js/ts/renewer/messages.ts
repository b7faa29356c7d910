/** What both threads tell each other. */

/** A lease of one name, or a part of a lease of several names. */
export interface Entry {
  /** The manager. */
  readonly share: number;
  /** The number of the entry. No two entries of a manager have the same. */
  readonly id: number;
  /** Where the worker writes what was confirmed. */
  readonly slot: number;
  /** The renewal, without its last word, the TTL. */
  readonly words: readonly string[];
  /** The TTL in milliseconds. */
  readonly ttl: number;
  /** How long the lease still lasts, in milliseconds. */
  readonly left: number;
  /** When the lease ends at the latest, in milliseconds of the main thread's clock. */
  readonly ends: number;
}

/** From the main thread. `now` is its clock, in milliseconds. */
export type ToWorker = { readonly now: number } & (
  /** A manager begins, or has another board. */
  | { readonly kind: 'board'; readonly share: number; readonly buffer: SharedArrayBuffer }
  /** The text of the script with this digest. */
  | { readonly kind: 'script'; readonly digest: string; readonly text: string }
  | { readonly kind: 'hold'; readonly entry: Entry }
  | { readonly kind: 'drop'; readonly share: number; readonly id: number }
  /** A manager has closed. */
  | { readonly kind: 'end'; readonly share: number }
);

/** From the worker. */
export type FromWorker =
  /** It has the module's client. */
  | { readonly kind: 'ready' }
  /** The module can't be used. */
  | { readonly kind: 'unusable'; readonly error: unknown }
  /** The server says that an entry's token holds nothing. */
  | { readonly kind: 'gone'; readonly share: number; readonly id: number }
  /** A renewal has failed, and none before it since the last one that was answered. */
  | { readonly kind: 'failing'; readonly problem: string }
  /** A renewal was answered after one that had failed. */
  | { readonly kind: 'answered' };
