/** The errors. Each one has a stable `code` and says whether a retry may help. */

import { BUSY_UNTIL, ERROR_MESSAGES, type ErrorCode, LOSS_MESSAGES, type LossReason, RETRYABLE } from './errors.generated.js';
import { describeVotes, type Vote } from './votes.js';

export type { ErrorCode, LossReason, Vote };

/** The manager that held a lock alone, as far as another one knew that wanted the lock. */
export interface BusyHolder {
  /** The manager's id. The tokens that `inspect` shows begin with it. Empty if `foreign`. */
  readonly clientId: string;
  /** The manager's `label`; undefined if it has not told the server. */
  readonly label: string | undefined;
  /** How long it had held the lock, in milliseconds, if known. */
  readonly held: number | undefined;
  /** Whether it is the manager that wanted the lock: another part of your program has it. See `nested` and `reentrant`. */
  readonly isOwn: boolean;
  /** Whether the lock's key has no TTL. Then no manager holds the lock: the key is another library's, or other data. It never expires. */
  readonly foreign: boolean;
}

/** What an error carries besides its message. */
interface Details {
  readonly lockName?: string | undefined;
  readonly busyName?: string | undefined;
  readonly waited?: number | undefined;
  readonly holderRemaining?: number | undefined;
  readonly holder?: BusyHolder | undefined;
  /** Whether the call was for permits of a rate, which nobody holds. */
  readonly isRate?: boolean | undefined;
  readonly waiters?: number | undefined;
  readonly server?: string | undefined;
  readonly field?: string;
  readonly reason?: LossReason;
  readonly votes?: readonly Vote[] | undefined;
  readonly confirmed?: number;
  readonly wanted?: number;
  readonly cause?: unknown;
}

/** What the message of an error says about this one case. */
type Fields = Readonly<Record<string, string>>;

// A mark on each error, because a program may load this module twice, and then `instanceof` alone would fail.
const MARK = Symbol.for('leasehold.error');

class LeaseholdErrorBase extends Error {
  /** The stable error code. Compare this, not the message. */
  declare readonly code: ErrorCode;
  /** Whether the same call may succeed later without any change by you. */
  declare readonly retryable: boolean;
  /** The lock's name, without the manager's prefix, if the error is about one lock. */
  declare readonly lockName: string | undefined;
  /** How long the call waited, in milliseconds. */
  declare readonly waited: number | undefined;
  /** How long the holder's lease lasts unless it is renewed, in milliseconds, if known. For a rate, how long until permits come back. */
  declare readonly holderRemaining: number | undefined;

  /** @internal */
  constructor(code: ErrorCode, details: Details, fields: Fields = {}) {
    super(messageOf(code, details.lockName, fields));
    setFields(this, code, details);
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return isInstance(this, value);
  }
}

/** An option, a name or a connection can't be used. Nothing was sent. This error is also a `TypeError`. */
export class InvalidOptionError extends TypeError {
  static readonly code = 'invalid-option';
  /** The stable error code. */
  declare readonly code: 'invalid-option';
  /** Always `false`: the call needs a change. */
  declare readonly retryable: boolean;
  declare readonly lockName: string | undefined;
  declare readonly waited: number | undefined;
  declare readonly holderRemaining: number | undefined;
  /** The option that can't be used: `ttl`, `name`, `connection`, ... */
  declare readonly field: string;

  /** @internal */
  constructor(field: string, problem: string, details: Details = {}) {
    super(messageOf('invalid-option', undefined, { field, problem }));
    setFields(this, 'invalid-option', { ...details, field });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return isInstance(this, value);
  }
}

/** The lease is no longer held: it was released or lost before this call. Acquire the lock again. */
export class NotHeldError extends LeaseholdErrorBase {
  static readonly code = 'not-held';
  declare readonly code: 'not-held';
  /** @internal */
  constructor(lockName: string) {
    super('not-held', { lockName });
  }
}

/** `oneScript` was set, and the names are in different slots of a cluster. Give all of them one hash tag. */
export class CrossSlotError extends LeaseholdErrorBase {
  static readonly code = 'cross-slot';
  declare readonly code: 'cross-slot';
  /** @internal */
  constructor(lockName: string) {
    super('cross-slot', { lockName });
  }
}

/**
 * The call is not possible while there are other holders, for example an `upgrade()` while another reader holds the lock. Also an
 * `adopt()` with another mode or number of permits than the lease has.
 */
export class ConflictError extends LeaseholdErrorBase {
  static readonly code = 'conflict';
  declare readonly code: 'conflict';
  /** @internal */
  constructor(lockName: string, problem: string) {
    super('conflict', { lockName }, { problem });
  }
}

/** This server, this connection or this kind of lock can't do it. The message names what is needed. */
export class UnsupportedError extends LeaseholdErrorBase {
  static readonly code = 'unsupported';
  declare readonly code: 'unsupported';
  /** @internal */
  constructor(problem: string, details: Details = {}) {
    super('unsupported', details, { problem });
  }
}

/** The manager was closed. */
export class ClosedError extends LeaseholdErrorBase {
  static readonly code = 'closed';
  declare readonly code: 'closed';
  /** @internal */
  constructor(details: Details = {}) {
    super('closed', details);
  }
}

/** The name holds another kind of lock, or other data. Nothing was changed. Use another name or a prefix. */
export class WrongKindError extends LeaseholdErrorBase {
  static readonly code = 'wrong-kind';
  declare readonly code: 'wrong-kind';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('wrong-kind', details, { problem });
  }
}

/** Another client held the lock for the whole wait, or the call doesn't wait. */
export class BusyError extends LeaseholdErrorBase {
  static readonly code = 'busy';
  declare readonly code: 'busy';
  /** Which of several names was not free: the first one. `undefined` if the call was about one name. */
  declare readonly busyName: string | undefined;
  /** How long the call waited, in milliseconds. */
  declare readonly waited: number;
  /** How each server of a quorum answered. */
  declare readonly votes: readonly Vote[] | undefined;
  /** Who holds the lock, if one manager holds it alone and it is known. */
  declare readonly holder: BusyHolder | undefined;
  /** How many callers waited already, if the call was refused because of `maxWaiters`. `undefined` if it was not. */
  declare readonly waiters: number | undefined;
  /** @internal */
  constructor(details: Details) {
    const { busyName, waited, holderRemaining, isRate, holder, waiters, votes } = details;
    const name = busyName === undefined ? '' : `, because of \`${busyName}\``;
    const by = holder === undefined ? '' : `; ${heldBy(holder)}`;
    const until = isRate === true ? BUSY_UNTIL.window : holder === undefined ? BUSY_UNTIL.holder : BUSY_UNTIL.its;
    const left = holderRemaining === undefined ? '' : until + formatTime(holderRemaining);
    const reason = waiters === undefined ? ` after ${formatTime(waited)}` : `: the limit of waiting callers is reached (${waiters})`;
    super('busy', details, { reason, name, votes: voteSummary(votes), holder: by + left });
  }
}

function heldBy({ clientId, label, held, isOwn, foreign }: BusyHolder): string {
  if (foreign) return "held by another library's key or other data, without a TTL: it never ends by itself";
  const name = label ?? clientId;
  return `held by ${isOwn ? `this process (${name})` : name}${held === undefined ? '' : ` for ${formatTime(held)}`}`;
}

/** The wait was cancelled by a signal that has no `reason`. */
export class CancelledError extends LeaseholdErrorBase {
  static readonly code = 'cancelled';
  declare readonly code: 'cancelled';
  /** @internal */
  constructor(lockName: string | undefined) {
    super('cancelled', { lockName });
  }
}

/** The lease was lost while it was needed. This error is also the `reason` of an aborted `lease.signal`. */
export class LostError extends LeaseholdErrorBase {
  static readonly code = 'lost';
  declare readonly code: 'lost';
  /** How it was lost. */
  declare readonly reason: LossReason;
  /** @internal */
  constructor(lockName: string | undefined, reason: LossReason, cause?: unknown) {
    super('lost', { lockName, reason, cause }, { reason: LOSS_MESSAGES[reason] ?? reason });
  }
}

/**
 * No server answered in time, or the client was closed. It is not known whether the lock is busy, nor whether a command was
 * applied. The `cause` is the client library's own error, and the message quotes it.
 */
export class UnreachableError extends LeaseholdErrorBase {
  static readonly code = 'unreachable';
  declare readonly code: 'unreachable';
  /** How long the call waited, in milliseconds. */
  declare readonly waited: number;
  /** The server's address, if the client library exposes it. */
  declare readonly server: string | undefined;
  /** How each server of a quorum answered. */
  declare readonly votes: readonly Vote[] | undefined;
  /** @internal */
  constructor(problem: string | undefined, details: Details) {
    super('unreachable', details, { problem: unreachableMessage(problem, details) });
  }
}

/** Too few replicas confirmed the lease in time: see `waitForReplicas`. The lease was given back. */
export class NotReplicatedError extends LeaseholdErrorBase {
  static readonly code = 'not-replicated';
  declare readonly code: 'not-replicated';
  /** How long the call waited for the replicas, in milliseconds. */
  declare readonly waited: number;
  /** How many replicas confirmed the lease. */
  declare readonly confirmed: number;
  /** How many replicas were asked for. */
  declare readonly wanted: number;
  /** @internal */
  constructor(details: Details) {
    const { waited, confirmed, wanted } = details;
    super('not-replicated', details, { confirmed: `${confirmed}`, wanted: `${wanted}`, waited: formatTime(waited) });
  }
}

/** The server refused the login or a command (`NOAUTH`, `WRONGPASS`, `NOPERM`). */
export class AuthError extends LeaseholdErrorBase {
  static readonly code = 'auth';
  declare readonly code: 'auth';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('auth', details, { problem });
  }
}

/** The server answered with an error that a retry does not fix. */
export class ServerError extends LeaseholdErrorBase {
  static readonly code = 'server';
  declare readonly code: 'server';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('server', details, { problem });
  }
}

/** The client did not understand the server's answer. */
export class ProtocolError extends LeaseholdErrorBase {
  static readonly code = 'protocol';
  declare readonly code: 'protocol';
  /** @internal */
  constructor(problem: string, details: Details) {
    super('protocol', details, { problem });
  }
}

/** Maps each error code to its class. */
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

/** Any error of this package. `switch (error.code)` narrows it. */
export type AnyLeaseholdError = ErrorsByCode[ErrorCode];

/** Any error of this package. `switch (error.code)` narrows it. */
export type LeaseholdError = AnyLeaseholdError;

/** The type of the value {@link LeaseholdError}. It works with `instanceof` and can't be constructed. */
export interface LeaseholdErrorClass extends Function {
  readonly prototype: AnyLeaseholdError;
  [Symbol.hasInstance](value: unknown): value is AnyLeaseholdError;
}

/**
 * The base class of all errors of this package. `instanceof LeaseholdError` matches all of them, and `code` tells which one
 * it is.
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
 * Whether a caught value is an error of this package, optionally with this code. It also recognises the errors of another
 * copy of the package.
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

/** The engine's message of a code, behind the lock's name. */
function messageOf(code: ErrorCode, lockName: string | undefined, fields: Fields): string {
  const lock = lockName === undefined || code === 'closed' ? '' : `${code === 'cross-slot' ? 'locks' : 'lock'} \`${lockName}\`: `;
  return lock + ERROR_MESSAGES[code].replace(/{(\w+)}/g, (text, field: string) => fields[field] ?? text);
}

/** Which server did not answer, and why. Without a `problem`, there was just no answer. */
function unreachableMessage(problem: string | undefined, { server = 'the server', waited, votes }: Details): string {
  if (votes !== undefined) return `no majority of the servers answered within ${formatTime(waited)}${voteSummary(votes)}`;
  // The failure was known at once, so a time would say nothing.
  if (waited === 0 && problem !== undefined) return `can't reach ${server}: ${problem}`;
  if (problem === undefined) return `no answer from ${server} within ${formatTime(waited)}`;
  return `${server} was not available within ${formatTime(waited)}: ${problem}`;
}

/** A time for messages: `250 ms`, `1.5 s`, `21 s`. */
function formatTime(ms = 0): string {
  if (ms < 1_000) return `${ms} ms`;
  const tenths = Math.round(ms / 100);
  return `${tenths < 100 ? tenths / 10 : Math.round(ms / 1_000)} s`;
}

function voteSummary(votes: readonly Vote[] | undefined): string {
  return votes === undefined ? '' : `: ${describeVotes(votes)}`;
}

/** Sets only the properties that are known, so that a logged error is short. */
function setFields(error: Error, code: ErrorCode, details: Details): void {
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
