/** Converts what the libraries return and throw to the replies and failures that the engine reads. */

import type { Failed, Reply, Scalar } from './link.js';

/**
 * The longest reply that is accepted. Replies to our commands have a few kilobytes at most, except the one to `inspect`, which has
 * less than a hundred bytes for each waiter. A longer reply does not come from the intended server.
 */
export const LONGEST_REPLY = 4 * 1024 * 1024;

/** Converts a reply of any library. A reply that is nested or too long becomes text that the engine refuses. */
export function toReply(value: unknown): Reply {
  if (!Array.isArray(value)) return lengthOf(value) > LONGEST_REPLY ? tooLong(lengthOf(value)) : toScalar(value);
  let length = value.length;
  for (const part of value) length += lengthOf(part);
  if (length > LONGEST_REPLY) return tooLong(length);
  return value.every(isScalar) ? value : value.map(toScalar);
}

function tooLong(length: number): string {
  return `a reply of ${length} bytes`;
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' || value instanceof Uint8Array ? value.length : 0;
}

function isScalar(value: unknown): value is Scalar {
  return value === null || typeof value === 'number' || typeof value === 'string' || value instanceof Uint8Array;
}

function toScalar(value: unknown): Scalar {
  if (isScalar(value)) return value;
  if (value === undefined) return null;
  if (typeof value === 'bigint' || typeof value === 'boolean') return Number(value);
  // The text of such a list could have any length.
  if (Array.isArray(value)) return 'a list in a list';
  return String(value);
}

/** Converts an error of a command that was given to a library. Unless it is the server's answer, the command may have run. */
export function toFailed(error: unknown): Failed {
  const refusal = serverMessage(error);
  if (refusal !== undefined) return refused(refusal, error);
  return { failure: { kind: 'interrupted', text: truncate(messageOf(error)) }, cause: error };
}

/** Keeps the beginning of the server's message, because an error may quote a whole script. */
export function refused(message: string, error: unknown): Failed {
  const text = truncate(message);
  return { failure: { kind: 'refused', text }, cause: text === message ? error : new Error(text) };
}

/** The server's refusal, if a client can't connect because its login is refused. Nothing was sent then. */
export function loginRefusal(error: unknown): Failed | undefined {
  const refusal = serverMessage(error);
  return refusal !== undefined && /^(?:WRONGPASS|NOAUTH) /.test(refusal) ? refused(refusal, error) : undefined;
}

/** Whether a server's error says that it is a replica, perhaps one that has lost its primary. */
export function isOfReplica(text: string): boolean {
  return /(?:^|[ -])(?:READONLY|MASTERDOWN) /.test(text);
}

export function unavailable(text: string, cause?: unknown): Failed {
  return cause === undefined ? { failure: { kind: 'unavailable', text } } : { failure: { kind: 'unavailable', text }, cause };
}

/** The client was closed by its owner. */
export function closed(text: string): Failed {
  return { failure: { kind: 'closed', text } };
}

/** How many characters of an error's text to keep. */
const LONGEST_TEXT = 1_000;

export function truncate(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}... (${text.length} characters)` : text;
}

/** A server's error begins with a code in capitals. Errors of the libraries and of the operating system don't. */
const CODE_WORD = /^-?(?!(?:TLS|SSL|TCP|DNS|HTTP|HTTPS|IO) )[A-Z][A-Z0-9_]+ /;

/** The server's message, if the error is the server's answer. */
export function serverMessage(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || 'syscall' in error) return undefined;
  const text = messageOf(error);
  return CODE_WORD.test(text) ? text : undefined;
}

export function messageOf(error: unknown): string {
  try {
    if (!(typeof error === 'object' && error !== null && 'message' in error)) return String(error);
    if (typeof error.message === 'string' && error.message !== '') return error.message;
    // An `AggregateError` for several addresses has no message of its own.
    return 'errors' in error && Array.isArray(error.errors) && error.errors.length > 0 ? messageOf(error.errors[0]) : String(error);
  } catch {
    // A getter threw, or the value has no text.
    return 'an error without a message';
  }
}

