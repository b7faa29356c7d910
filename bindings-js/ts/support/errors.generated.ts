// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

/**
 * The stable error codes. They are the same in Rust and in the WASI component:
 *
 * - `invalid-option`: An option or a name can't be used. Nothing was sent.
 * - `not-held`: The lease is no longer held: it was released or lost before this call.
 * - `conflict`: The call is not possible while there are other holders, for example an upgrade while another reader
 *   holds the lock. Also an adoption with another mode or number of permits than the lease has.
 * - `unsupported`: This host or this lock can't do it.
 * - `cross-slot`: One script was asked for, but the names are in several slots of a cluster.
 * - `closed`: The client was closed.
 * - `busy`: Another client held the lock for the whole wait, or the call doesn't wait.
 * - `cancelled`: The caller cancelled its wait.
 * - `lost`: The lease was lost during the operation.
 * - `unreachable`: No server answered in time. It is not known whether the lock is busy, nor whether a command was
 *   applied.
 * - `not-replicated`: Fewer replicas than asked for have confirmed the lease in time. It was released.
 * - `auth`: The server refused the login or a right (`NOAUTH`, `WRONGPASS`, `NOPERM`).
 * - `server`: The server answered with an error that a retry does not fix.
 * - `protocol`: The client did not understand the server's answer.
 * - `wrong-kind`: The name holds another kind of lock, or other data. Nothing was changed.
 */
export type ErrorCode =
  | 'invalid-option'
  | 'not-held'
  | 'conflict'
  | 'unsupported'
  | 'cross-slot'
  | 'closed'
  | 'busy'
  | 'cancelled'
  | 'lost'
  | 'unreachable'
  | 'not-replicated'
  | 'auth'
  | 'server'
  | 'protocol'
  | 'wrong-kind';

/**
 * How a lease was lost:
 *
 * - `expired`: No renewal succeeded in time, or a fixed lease reached its end.
 * - `gone`: The key vanished on the server: flushed, evicted, deleted, or the server restarted empty.
 * - `taken`: Another client holds the lock.
 * - `revoked`: An operator took the lock by force, a Web Locks request stole it, or another process adopted the lease.
 * - `max-hold`: The renewed lease reached its `maxHold`.
 * - `closed`: The manager was closed.
 */
export type LossReason =
  | 'expired'
  | 'gone'
  | 'taken'
  | 'revoked'
  | 'max-hold'
  | 'closed';

/**
 * What a release did:
 *
 * - `released`: The lease was valid to the end, and the lock is free now.
 * - `still-held`: The lease has other holds.
 * - `already-expired`: The lease had already ended.
 * - `not-owner`: Another client holds the lock.
 * - `detached`: The lease was valid to the end, and the lock stays taken for the rest of `atLeast`, or the lease was
 *   detached.
 */
export type ReleaseOutcome =
  | 'released'
  | 'still-held'
  | 'already-expired'
  | 'not-owner'
  | 'detached';

/** Why a command has no reply. */
export type Failure =
  /** The server answered with this error, beginning with its code. Not applied. */
  | { readonly kind: 'refused'; readonly text: string }
  /** The command certainly did not run: there was no connection, or it was refused before the script ran. */
  | { readonly kind: 'unavailable'; readonly text: string }
  /** The connection broke after the command may have been sent. Maybe applied. */
  | { readonly kind: 'interrupted'; readonly text: string }
  /** There was no answer in time. Maybe applied, perhaps later. */
  | { readonly kind: 'timed-out' }
  /** This host doesn't support it, for example subscriptions. */
  | { readonly kind: 'unsupported'; readonly text: string }
  /** The owner closed the connection for good. Not applied. */
  | { readonly kind: 'closed'; readonly text: string };

export const ERROR_CODES: readonly ErrorCode[] = [
  'invalid-option',
  'not-held',
  'conflict',
  'unsupported',
  'cross-slot',
  'closed',
  'busy',
  'cancelled',
  'lost',
  'unreachable',
  'not-replicated',
  'auth',
  'server',
  'protocol',
  'wrong-kind',
];

export const RETRYABLE: readonly ErrorCode[] = [
  'busy',
  'lost',
  'unreachable',
  'not-replicated',
];

export const LOSS_REASONS: readonly LossReason[] = [
  'expired',
  'gone',
  'taken',
  'revoked',
  'max-hold',
  'closed',
];

export const RELEASE_OUTCOMES: readonly ReleaseOutcome[] = [
  'released',
  'still-held',
  'already-expired',
  'not-owner',
  'detached',
];

export const FAILURE_KINDS: readonly Failure['kind'][] = [
  'refused',
  'unavailable',
  'interrupted',
  'timed-out',
  'unsupported',
  'closed',
];

export const NOT_READY: readonly string[] = [
  'TRYAGAIN',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'READONLY',
  'BUSY',
  'NOREPLICAS',
  'MISCONF',
];

export const NO_RIGHT: readonly string[] = [
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
  "can't run this command or subcommand",
  'ACL failure in script',
  'unauthenticated',
];

export const CROSS_SLOT: readonly string[] = [
  'CROSSSLOT',
  'same slot',
];

export const UNREACHED: readonly string[] = [
  'Connection refused',
  'avaliable',
  'no upstream host',
  'router is not online',
  'slot is not ready',
];

export const BROKE: readonly string[] = [
  'ERR unknown\n',
  'timed out\n',
  'Connection reset',
  'Broken pipe',
  'Host is down',
  'No route to host',
  'upstream failure',
  'server connection close',
  'backend conn',
  'proxy upstream',
];

export const WRONG_TYPE = 'WRONGTYPE';

export const BAD_FENCE = 'BADFENCE';

export const SLOT_MOVES = 'non local key';

export const NO_MORE_CLIENTS = 'max number of clients';

export const ERROR_MESSAGES: Readonly<Record<ErrorCode, string>> = {
  'invalid-option': '`{field}` {problem}',
  'not-held': 'the lease is no longer held; acquire it again',
  'conflict': '{problem}',
  'unsupported': 'not supported: {problem}',
  'cross-slot': 'the names are in different cluster slots; give all of them one hash tag, like `{tag}`',
  'closed': 'the lock manager is closed',
  'busy': 'busy{reason}{name}{votes}{holder}',
  'cancelled': 'the wait was cancelled',
  'lost': 'the lease was lost: {reason}',
  'unreachable': '{problem}',
  'not-replicated': '{confirmed} of {wanted} replicas confirmed the lease within {waited}; it was released',
  'auth': 'the server refused the user, the password or a command: {problem}',
  'server': 'the server answered with an error: {problem}',
  'protocol': 'unexpected answer from the server: {problem}',
  'wrong-kind': 'the key holds another kind of lock or other data; use another name or a prefix: {problem}',
};

/** How the message of a `busy` error says when the name may be free, before the time. */
export const BUSY_UNTIL = {
  holder: "; the holder's lease expires in ",
  its: "; its lease expires in ",
  window: "; permits come back in ",
} as const;

export const LOSS_MESSAGES: Readonly<Record<LossReason, string>> = {
  'expired': 'it expired without a renewal',
  'gone': 'its key vanished from the server',
  'taken': 'another client holds the lock',
  'revoked': 'an operator took the lock by force, or another process adopted the lease',
  'max-hold': 'it reached its maxHold',
  'closed': 'its manager was closed',
};

export const FAILURE_MESSAGES: Readonly<Record<Failure['kind'], string>> = {
  'refused': 'refused by the server: {text}',
  'unavailable': 'not available: {text}',
  'interrupted': 'the connection broke: {text}',
  'timed-out': 'no answer in time',
  'unsupported': 'not supported: {text}',
  'closed': 'the connection is closed: {text}',
};
