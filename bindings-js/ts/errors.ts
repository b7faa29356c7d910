/** Everything that can go wrong. Each error has a stable `code`, and says whether to try again. */

import { describeVotes } from './votes.js';

/** The stable codes, the same in every language that leasehold speaks. */
export type ErrorCode =
  | 'invalid-option' | 'not-held' | 'cross-slot' | 'wrong-kind' | 'conflict' | 'unsupported' | 'closed'
  | 'busy' | 'cancelled' | 'lost' | 'unreachable' | 'not-replicated'
  | 'auth' | 'server' | 'protocol';

/**
 * How a lease was lost: `expired` (no renewal succeeded in time, or a fixed lease ended), `gone` (the key vanished from the
 * server), `taken` (somebody else holds the lock), `revoked` (an operator took it), `max-hold` (the limit you set).
 */
export type LossReason = 'expired' | 'gone' | 'taken' | 'revoked' | 'max-hold';

/** What one server of a quorum said. */
export interface Vote {
  /** The server's address, or its place in the list where the client library does not tell. */
  readonly server: string;
  /** Whether it agreed, or why it did not. Null if the outcome was certain before it had answered. */
  readonly answer: 'agreed' | 'timed-out' | ErrorCode | null;
  /** The server's or the client library's own words. */
  readonly problem?: string | undefined;
}

/** What an error knows beside its message. */
interface Details {
  readonly lockName?: string | undefined;
  readonly waited?: number | undefined;
  readonly holderRemaining?: number | undefined;
  readonly server?: string | undefined;
  readonly field?: string;
  readonly reason?: LossReason;
  readonly votes?: readonly Vote[] | undefined;
  readonly confirmed?: number;
  readonly wanted?: number;
  readonly cause?: unknown;
}

// A mark instead of `instanceof`: a program may load this module twice.
const MARK = Symbol.for('leasehold.error');
const RETRYABLE: readonly ErrorCode[] = ['busy', 'lost', 'unreachable', 'not-replicated'];

class LeaseholdErrorBase extends Error {
  /** What happened: stable, to be compared. */
  declare readonly code: ErrorCode;
  /** Whether the same call may succeed later without any change by the caller. */
  declare readonly retryable: boolean;
  /** The lock's name, without the manager's prefix, if the error is about one lock. */
  declare readonly lockName: string | undefined;
  /** How long the caller waited in vain, in milliseconds. */
  declare readonly waited: number | undefined;
  /** How long the holder's lease had left, in milliseconds, where it is known. It may be renewed. */
  declare readonly holderRemaining: number | undefined;

  /** @internal */
  constructor(code: ErrorCode, message: string, details: Details = {}) {
    super(message);
    describe(this, code, details);
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return isInstance(this, value);
  }
}

/** The caller's: an option, a name or a connection that can't be used. Nothing was sent. It is a `TypeError` as well. */
export class InvalidOptionError extends TypeError {
  static readonly code = 'invalid-option';
  declare readonly code: 'invalid-option';
  declare readonly retryable: boolean;
  declare readonly lockName: string | undefined;
  declare readonly waited: number | undefined;
  declare readonly holderRemaining: number | undefined;
  /** The option as you write it: `ttl`, `name`, `connection`, ... */
  declare readonly field: string;

  /** @internal */
  constructor(field: string, problem: string, details: Details = {}) {
    super(`\`${field}\` ${problem}`);
    describe(this, 'invalid-option', { ...details, field });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return isInstance(this, value);
  }
}

/** The caller's: the lease is not held any more, as it was released or lost. */
export class NotHeldError extends LeaseholdErrorBase {
  static readonly code = 'not-held';
  declare readonly code: 'not-held';
  /** @internal */
  constructor(lockName: string) {
    super('not-held', `the lease of \`${lockName}\` is not held any more: acquire it again`, { lockName });
  }
}

/** The caller's: one script was asked for, and the names are in different slots of a cluster. */
export class CrossSlotError extends LeaseholdErrorBase {
  static readonly code = 'cross-slot';
  declare readonly code: 'cross-slot';
  /** @internal */
  constructor(lockName: string) {
    super('cross-slot', `\`${lockName}\` are in different cluster slots: give all of them one hash tag like \`{tag}\``, { lockName });
  }
}

/** The caller's: not possible beside the other holders, e.g. an upgrade with a second reader. */
export class ConflictError extends LeaseholdErrorBase {
  static readonly code = 'conflict';
  declare readonly code: 'conflict';
  /** @internal */
  constructor(lockName: string, problem: string) {
    super('conflict', `\`${lockName}\`: ${problem}`, { lockName });
  }
}

/** The caller's: this server, this connection or this lock can't do it. */
export class UnsupportedError extends LeaseholdErrorBase {
  static readonly code = 'unsupported';
  declare readonly code: 'unsupported';
  /** @internal */
  constructor(problem: string, details: Details = {}) {
    super('unsupported', `not supported here: ${problem}`, details);
  }
}

/** The caller's: the manager was closed. */
export class ClosedError extends LeaseholdErrorBase {
  static readonly code = 'closed';
  declare readonly code: 'closed';
  /** @internal */
  constructor(details: Details = {}) {
    super('closed', 'the lock manager is closed', details);
  }
}

/** The caller's: the name holds another kind of lock, or foreign data. It was left as it is. */
export class WrongKindError extends LeaseholdErrorBase {
  static readonly code = 'wrong-kind';
  declare readonly code: 'wrong-kind';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('wrong-kind', `\`${details.lockName}\` holds something else than this kind of lock: ${problem}`, details);
  }
}

/** The world's: somebody else held the lock during the whole wait. */
export class BusyError extends LeaseholdErrorBase {
  static readonly code = 'busy';
  declare readonly code: 'busy';
  declare readonly waited: number;
  /** What each server of a quorum said. */
  declare readonly votes: readonly Vote[] | undefined;
  /** @internal */
  constructor(details: Details) {
    const { lockName, waited, holderRemaining, votes } = details;
    const left = holderRemaining === undefined ? '' : `; that lease has ${holderRemaining} ms left unless it is renewed`;
    super('busy', `\`${lockName}\` was still held after ${waited} ms${counted(votes)}${left}`, details);
  }
}

/** The world's: the wait was cancelled, by a signal without a reason of its own. */
export class CancelledError extends LeaseholdErrorBase {
  static readonly code = 'cancelled';
  declare readonly code: 'cancelled';
  /** @internal */
  constructor(lockName: string | undefined) {
    super('cancelled', `the wait for \`${lockName}\` was cancelled`, { lockName });
  }
}

/** The world's: the lease was lost while it was needed. It is the `reason` of an aborted `lease.signal`, too. */
export class LostError extends LeaseholdErrorBase {
  static readonly code = 'lost';
  declare readonly code: 'lost';
  /** How it was lost. */
  declare readonly reason: LossReason;
  /** @internal */
  constructor(lockName: string | undefined, reason: LossReason) {
    super('lost', `the lease of \`${lockName}\` was lost: ${LOSSES[reason] ?? reason}`, { lockName, reason });
  }
}

/**
 * The world's: no server answered within the operation's time, or the client was closed. Whether the lock is busy is not known. The client
 * library's own error is the `cause`, and the message has its words.
 */
export class UnreachableError extends LeaseholdErrorBase {
  static readonly code = 'unreachable';
  declare readonly code: 'unreachable';
  declare readonly waited: number;
  /** The server's address, where the client library tells it. */
  declare readonly server: string | undefined;
  /** What each server of a quorum said. */
  declare readonly votes: readonly Vote[] | undefined;
  /** @internal */
  constructor(attempt: string | undefined, details: Details) {
    super('unreachable', unanswered(attempt, details), details);
  }
}

/** The world's: too few replicas had the lease in time, see `waitForReplicas`. It was given back. */
export class NotReplicatedError extends LeaseholdErrorBase {
  static readonly code = 'not-replicated';
  declare readonly code: 'not-replicated';
  declare readonly waited: number;
  /** How many replicas had it. */
  declare readonly confirmed: number;
  /** How many were asked for. */
  declare readonly wanted: number;
  /** @internal */
  constructor(details: Details) {
    const { lockName, waited, confirmed, wanted } = details;
    super('not-replicated', `\`${lockName}\`: ${confirmed} of ${wanted} replicas confirmed the lease within ${waited} ms, so it was given back`, details);
  }
}

/** The server's: it refused the credentials or the rights (`NOAUTH`, `WRONGPASS`, `NOPERM`). */
export class AuthError extends LeaseholdErrorBase {
  static readonly code = 'auth';
  declare readonly code: 'auth';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('auth', `the server refused the credentials or the rights: ${problem}`, details);
  }
}

/** The server's: it answered with an error that retrying does not mend. */
export class ServerError extends LeaseholdErrorBase {
  static readonly code = 'server';
  declare readonly code: 'server';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('server', `the server answered with an error: ${problem}`, details);
  }
}

/** The server's: an answer that leasehold does not understand. */
export class ProtocolError extends LeaseholdErrorBase {
  static readonly code = 'protocol';
  declare readonly code: 'protocol';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('protocol', `the server's answer was not understood: ${problem}`, details);
  }
}

/** Each code with its class. */
export interface ErrorsByCode {
  'invalid-option': InvalidOptionError;
  'not-held': NotHeldError;
  'cross-slot': CrossSlotError;
  'wrong-kind': WrongKindError;
  'conflict': ConflictError;
  'unsupported': UnsupportedError;
  'closed': ClosedError;
  'busy': BusyError;
  'cancelled': CancelledError;
  'lost': LostError;
  'unreachable': UnreachableError;
  'not-replicated': NotReplicatedError;
  'auth': AuthError;
  'server': ServerError;
  'protocol': ProtocolError;
}

/** Any error of this package: `switch (error.code)` tells which. */
export type AnyLeaseholdError = ErrorsByCode[ErrorCode];

/** Any error of this package: `switch (error.code)` tells which. */
export type LeaseholdError = AnyLeaseholdError;

/** What all errors of this package are instances of. It makes none. */
export interface LeaseholdErrorClass extends Function {
  readonly prototype: AnyLeaseholdError;
  [Symbol.hasInstance](value: unknown): value is AnyLeaseholdError;
}

/**
 * The base of all errors of this package: `instanceof` finds each of them, and its `code` then tells which one it is.
 *
 * @example
 * ```ts
 * try {
 *   await locks.mutex('invoice:42').acquire({ wait: '5s' });
 * } catch (error) {
 *   if (!(error instanceof LeaseholdError)) throw error;
 *   if (error.code === 'busy') return tryLater(error.waited);
 *   if (error.retryable) return tryLater();
 *   throw error;
 * }
 * ```
 */
export const LeaseholdError = LeaseholdErrorBase as unknown as LeaseholdErrorClass;

/**
 * Whether a caught value is an error of this package, or the one with this code. It works across copies of the package,
 * where `instanceof` of other libraries fails.
 *
 * @example
 * ```ts
 * if (isLeaseholdError(error, 'busy')) console.log(`waited ${error.waited} ms`);
 * ```
 */
export function isLeaseholdError(value: unknown): value is AnyLeaseholdError;
export function isLeaseholdError<Code extends ErrorCode>(value: unknown, code: Code): value is ErrorsByCode[Code];
export function isLeaseholdError(value: unknown, code?: ErrorCode): boolean {
  return isMarked(value) && (code === undefined || value.code === code);
}

const LOSSES: Record<LossReason, string> = {
  'expired': 'its time ran out, and no renewal had come through',
  'gone': 'its key vanished from the server',
  'taken': 'somebody else holds the lock',
  'revoked': 'an operator took it by force',
  'max-hold': 'it reached its maxHold',
};

function unanswered(attempt: string | undefined, { server, waited, votes }: Details): string {
  if (votes !== undefined) return `no majority of the servers answered within ${waited} ms${counted(votes)}`;
  // It was known at once: a time would tell nothing.
  if (waited === 0 && attempt !== undefined) return `can't reach the server${server === undefined ? '' : ` at ${server}`}: ${attempt}`;
  const one = server === undefined ? 'no server answered' : `the server at ${server} did not answer`;
  return `${one} within ${waited} ms${attempt === undefined ? '' : `; the last attempt: ${attempt}`}`;
}

function counted(votes: readonly Vote[] | undefined): string {
  return votes === undefined ? '' : `: ${describeVotes(votes)}`;
}

/** Only what is known becomes a property, so that a logged error is short. */
function describe(error: Error, code: ErrorCode, details: Details): void {
  const hidden = { configurable: true, enumerable: false, writable: true };
  const name = `${code.replace(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Error`;
  Object.defineProperty(error, MARK, { ...hidden, value: true });
  Object.defineProperty(error, 'name', { ...hidden, value: name });
  const { cause, ...rest } = details;
  if (cause !== undefined) Object.defineProperty(error, 'cause', { ...hidden, value: cause });
  const known = Object.entries(rest).filter(([, value]) => value !== undefined);
  Object.assign(error, { code, retryable: RETRYABLE.includes(code), ...Object.fromEntries(known) });
}

function isMarked(value: unknown): value is { code: unknown } {
  try {
    return typeof value === 'object' && value !== null && (value as Record<symbol, unknown>)[MARK] === true;
  } catch {
    return false;
  }
}

function isInstance(type: object, value: unknown): boolean {
  return isMarked(value) && (!('code' in type) || value.code === type.code);
}
