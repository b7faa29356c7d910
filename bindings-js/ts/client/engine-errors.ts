/** Converts the engine's errors and the failures of commands to the errors that users catch. */

import { type Failure, isOfReplica, messageOf, truncate } from '../connections/index.js';
import { camelCase, type EngineError } from '../engine/index.js';
import { FAILURE_MESSAGES } from '../support/errors.generated.js';
import {
  AuthError, BusyError, type BusyHolder, CancelledError, ClosedError, ConflictError, CrossSlotError, InvalidOptionError, type LeaseholdError,
  LostError, NotHeldError, NotReplicatedError, ProtocolError, ServerError, UnreachableError, UnsupportedError, type Vote, WrongKindError,
} from '../support/errors.js';
import { meaningOf } from './refusals.js';

/** The state of the connection when an operation fails. The engine keeps only the texts of errors. */
export interface ConnectionState {
  /** The last failure of a command, with the library's error. Undefined if a command got a reply since. */
  readonly lastFailure: { readonly failure: Failure; readonly cause: unknown } | undefined;
  /** Why the library has no connection now. */
  readonly lastError: unknown;
  readonly address: string | undefined;
  /** Whether it stays at a server that has become a replica. */
  readonly stays?: boolean;
  /** The state of each server of a quorum. The other fields are undefined then. */
  readonly servers?: readonly ConnectionState[];
}

/** What is known about a lock that is busy. */
export interface BusyWith {
  readonly holder?: BusyHolder | undefined;
  /** Whether the call was for permits of a rate. */
  readonly isRate?: boolean;
}

/** Converts the engine's error. `lockName` is undefined if the error is not about a lock. */
export function toUserError(error: EngineError, lockName: string | undefined, state: ConnectionState, busy: BusyWith = {}): LeaseholdError | InvalidOptionError {
  const { code, field, reason, text, waited, holderRemaining, waiters, confirmed = 0, wanted = 0 } = error;
  const details = { lockName, waited, holderRemaining, cause: causeOf(error, state), votes: votesOf(error, state) };
  switch (code) {
    case 'invalid-option':
      return new InvalidOptionError(camelCase(field), text);
    case 'not-held':
      return new NotHeldError(lockName ?? '');
    case 'cross-slot':
      return new CrossSlotError(lockName ?? '');
    case 'conflict':
      return new ConflictError(lockName ?? '', text);
    case 'unsupported':
      // The server was asked with the first command, and its answer contradicts an option.
      return details.cause instanceof InvalidOptionError ? details.cause : new UnsupportedError(text, details);
    case 'closed':
      return new ClosedError({ lockName });
    case 'busy':
      return new BusyError({ ...details, busyName: text === '' ? undefined : text, waiters, ...busy });
    case 'cancelled':
      return new CancelledError(lockName);
    case 'lost':
      return new LostError(lockName, reason ?? 'expired');
    case 'unreachable':
      return unreachableError(error.cause, state, details);
    case 'not-replicated':
      return new NotReplicatedError({ lockName, waited, confirmed, wanted });
    case 'auth':
      return new AuthError(text, details);
    case 'server':
      if (text.startsWith('MOVED ')) return new UnsupportedError(needsCluster(text), details);
      // A name and the server's one counter of fences are seldom in the same slot.
      if (meaningOf(text) === 'cross-slot') return new UnsupportedError(`the server enforces the slots of a cluster, and did not show that at first; make a new manager, or pass the client library's cluster client: ${text}`, details);
      return new ServerError(text, details);
    case 'wrong-kind':
      return new WrongKindError(text, details);
    case 'protocol':
      return new ProtocolError(text, details);
  }
}

/**
 * Makes an `unreachable` error. The reason why there is no connection now says more than the result of the last attempt, which
 * may be long ago.
 */
export function unreachableError(
  failure: Failure | undefined,
  { lastFailure, lastError, address: server, stays = false }: ConnectionState,
  details: { readonly lockName: string | undefined; readonly waited: number | undefined; readonly cause?: unknown; readonly votes?: readonly Vote[] | undefined },
): UnreachableError {
  if (lastError !== undefined && failure?.kind !== 'closed') return new UnreachableError(messageOf(lastError), { ...details, server, cause: lastError });
  const known = failure ?? lastFailure?.failure ?? NO_ANSWER;
  const cause = details.cause ?? (failure === undefined ? lastFailure?.cause : undefined) ?? new Error(describeFailure(known));
  const problem = problemOf(known, truncate(messageOf(cause)));
  const advice = stays && problem !== undefined && isOfReplica(problem);
  return new UnreachableError(advice ? `${problem.replace(/\.$/, '')}; ${STAYS}` : problem, { ...details, server, cause });
}

const STAYS = 'this connection stays at a replica: let it connect again on READONLY, as ioredis does with `reconnectOnError`';

/** The failure and the message of its cause, for a message that already says that there was no answer. */
function problemOf(failure: Failure, message: string): string | undefined {
  const text = failure.kind === 'timed-out' ? undefined : failure.text;
  const problem = failure.kind === 'interrupted' ? `connection lost: ${text}` : text;
  if (message === truncate(describeFailure(failure)) || problem?.includes(message) === true) return problem;
  // The engine leaves out where in a script an error arose.
  if (text !== undefined && text !== '' && message.includes(text)) return problem;
  return problem === undefined ? message : `${problem}: ${message}`;
}

/** The failure of an operation of which nothing else is known. */
const NO_ANSWER: Failure = { kind: 'timed-out' };

/** What is wrong with a connection to one node of a cluster, by its answer for a slot that another node has. */
export function needsCluster(moved: string): string {
  return `the server belongs to a cluster; pass the client library's cluster client: ${moved}`;
}

/** Makes the error for a refusal of the server that the engine did not report. */
export function refusalError(text: string, lockName: string, cause: unknown): AuthError | ServerError {
  const kind = meaningOf(text) === 'auth' ? AuthError : ServerError;
  return new kind(text, { lockName, cause });
}

/** The library's own error, if it is the one that the engine reports, or if the engine has none. */
function causeOf({ code, cause, text }: EngineError, { lastFailure: last }: ConnectionState): unknown {
  if (last === undefined) return cause && new Error(describeFailure(cause));
  if (code === 'unreachable' && cause === undefined) return last.cause;
  const message = cause !== undefined && 'text' in cause ? cause.text : text;
  // The engine leaves out the end of a server's message, which only says where in a script the error occurred.
  if ('text' in last.failure && message !== '' && last.failure.text.startsWith(message)) return last.cause;
  return cause && new Error(describeFailure(cause));
}

/** How each server answered. The reason why there is no connection now says more than the result of the last attempt. */
function votesOf({ votes }: EngineError, { servers = [] }: ConnectionState): readonly Vote[] | undefined {
  if (votes.length === 0) return undefined;
  return votes.map((vote, at) => {
    const why = vote.answer === 'timed-out' || vote.answer === 'unreachable' ? servers[at]?.lastError : undefined;
    return why === undefined ? vote : { server: vote.server, answer: 'unreachable', problem: messageOf(why) };
  });
}

export function describeFailure(failure: Failure): string {
  return FAILURE_MESSAGES[failure.kind].replace('{text}', () => ('text' in failure ? failure.text : ''));
}
