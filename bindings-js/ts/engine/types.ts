/** What goes into the engine, and what comes out. */

import type { Failure } from '../connections/index.js';
import type { ReleaseOutcome } from '../support/errors.generated.js';
import type { ErrorCode, LossReason, Vote } from '../support/errors.js';
import type { LockSettings as AcquireSettings, MANAGER_DEFAULTS, ReplicaSettings } from '../support/options.generated.js';
import type { EngineKind } from './kinds.generated.js';

export type { AcquireSettings, ReleaseOutcome, ReplicaSettings };

/** How a lock is held: by one holder, or shared by many readers. */
export type Mode = 'exclusive' | 'shared';

/** The kind of a lock, with what only this kind has. */
export type LockKind =
  | EngineKind
  /** Several locks that are taken as one. `oneScript` refuses names that one script can't take. */
  | { readonly type: 'multi'; readonly parts: readonly LockSpec[]; readonly oneScript: boolean };

/** A lock, and how to hold it. */
export interface LockSpec {
  /** The lock's name without the prefix. For several names: all of them, separated by commas. */
  readonly name: string;
  /** The name on the server, without the prefix, if it is another one: see {@link nameOnServer}. */
  readonly alias?: string | undefined;
  readonly mode: Mode;
  readonly kind: LockKind;
}

/** The lock's name on the server, without the prefix. Some names can't be keys, so they have an alias there. */
export function nameOnServer({ name, alias }: LockSpec): string {
  return alias ?? name;
}

/** A lock with one holder, or with many readers or one writer. */
export const PLAIN: LockKind = { type: 'lock' };

/** A granted lease. Times are in microseconds. */
export interface Grant {
  readonly lease: number;
  readonly mode: Mode;
  readonly fence: number;
  readonly validUntil: number;
  /** Whether the lock was handed over inside this client, without the server. */
  readonly local: boolean;
}

/** The leader of an election. `led` is for how long it has led, in milliseconds. */
export interface EngineLeader {
  readonly value: string;
  readonly fence: number;
  readonly led: number;
}

/** One holder of a lock, as the server knows it. */
export interface Holder {
  /** The holder's token on the server: `<manager's id>:<number>`, or any text if another library holds the lock. */
  readonly token: string;
  /** How the holder holds the lock. */
  readonly mode: Mode;
  /** How long the holder's lease lasts unless it is renewed, in milliseconds; `null` for a foreign key that never expires. */
  readonly remaining: number | null;
  /** Whether a client of another library holds the lock. */
  readonly foreign: boolean;
  /** The `label` of the holder's manager; `null` if it has not told the server. */
  readonly label: string | null;
  /** The `label` of the lock that its manager told when it was asked; `null` if it has none or did not answer in time. */
  readonly leaseLabel: string | null;
  /**
   * For how long the lock has been held, in milliseconds: what its manager says, or since that manager last asked the server for
   * the lock or for more fences. Without its answer, it is known for the holder of a mutex and for a writer, else `null`.
   */
  readonly held: number | null;
}

/** One waiter for a lock, as the server knows it. */
export interface Waiter {
  /** The waiter's token on the server: `<manager's id>:<number>`. */
  readonly token: string;
  /** How the waiter wants to hold the lock. */
  readonly mode: Mode;
  /** The `label` of the waiter's manager; `null` if it has not told the server. */
  readonly label: string | null;
  /** The `label` of the lock that its manager's first caller waits for; `null` if it has none or did not answer in time. */
  readonly leaseLabel: string | null;
  /** How long it has waited, in milliseconds. */
  readonly waited: number | null;
  /**
   * How many callers of this manager wait, as its last heartbeat said. A manager that waits for a semaphore can be in the queue
   * several times, with some of its callers each time.
   */
  readonly callers: number;
}

/** The holders and the waiters of a lock, at one moment on the server. */
export interface Inspection {
  /**
   * No holder, one exclusive holder, or any number of readers. Several readers of one manager can appear as one holder. The
   * holders of a semaphore appear as `shared`.
   */
  readonly holders: readonly Holder[];
  /** The waiters, in the order of the queue: at most the first 1,000. */
  readonly waiters: readonly Waiter[];
  /** How many managers wait in all. A waiter that has died counts until its turn comes. */
  readonly waiting: number;
  /**
   * The fence of the server's last grant, while the lock is held. The holder can have a greater one, which its client took
   * from its block. `null` for a free lock and for a reentrant one.
   */
  readonly lastFence: number | null;
  /** How many permits the semaphore has; `null` for a free one, and for other kinds. */
  readonly limit: number | null;
  /** The window of a rate, in milliseconds. The permits of each holder count until its `remaining` is over. `null` for other locks. */
  readonly per: number | null;
}

/** Why a user's operation failed. */
export interface EngineError {
  readonly code: ErrorCode;
  /** The name of the option that can't be used; empty for other errors. */
  readonly field: string;
  /** How the lease was lost. */
  readonly reason: LossReason | undefined;
  /** The message of the engine or of the server; of several names, the one that is busy. */
  readonly text: string;
  readonly waited: number | undefined;
  readonly holderRemaining: number | undefined;
  /** How many callers waited already, if the call was refused because of that. */
  readonly waiters: number | undefined;
  /** How many replicas have confirmed the lease, and how many were asked for. */
  readonly confirmed: number | undefined;
  readonly wanted: number | undefined;
  /** How the last attempt failed, if no server was reached. */
  readonly cause: Failure | undefined;
  /** How each server of a quorum answered; empty for one server. */
  readonly votes: readonly Vote[];
}

/** The options of a client: those of a manager that have a default. Durations are in milliseconds. */
export interface Config extends Readonly<typeof MANAGER_DEFAULTS> {
  /** Whether commands wait to travel together until the driver has no other input. It must then wake the engine in time. */
  readonly batches: boolean;
  /** Whether a try and a force release go ahead of the waiters. */
  readonly ahead: boolean;
}

/** A lock of this client. */
export interface LockNameAndMode {
  readonly name: string;
  readonly mode: Mode;
}

/** How another thread renews a lease of one name, or one part of a lease of several names. */
export interface Renewal {
  /** The lease, or the lease of the part. */
  readonly lease: number;
  /** The number of its token. A conversion changes it. */
  readonly token: number;
  /** When the lease ends at the latest, in microseconds. Infinity for never. */
  readonly ends: number;
  /** The command: `EVALSHA`, the digest, and so on. The last word is the TTL in milliseconds. */
  readonly words: readonly string[];
  /** The text of its script. */
  readonly script: string;
}
