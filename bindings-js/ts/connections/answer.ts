/** From what the libraries answer and throw to what the engine reads. */

import type { Failed, Reply, Scalar } from './link.js';

/**
 * No reply to a command of ours is longer than a few kilobytes, but for that to `inspect`: it has less than a hundred bytes for each waiter.
 * What is longer comes from somebody who is no server, or not the one that was meant.
 */
export const LONGEST_REPLY = 4 * 1024 * 1024;

/** A reply of any library. What is no flat reply, or too long, becomes text, which the engine then refuses to read. */
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
  // As a text it could be of any length.
  if (Array.isArray(value)) return 'a list in a list';
  return String(value);
}

/** An error of a command that was handed to a library: the server's answer, or else nobody knows how far it came. */
export function toFailed(error: unknown): Failed {
  const refusal = serverText(error);
  if (refusal !== undefined) return refused(refusal, error);
  return { failure: { kind: 'interrupted', text: shortened(textOf(error)) }, cause: error };
}

/** The server's own words, of which a few lines are kept: an error may quote a whole script. */
export function refused(words: string, error: unknown): Failed {
  const text = shortened(words);
  return { failure: { kind: 'refused', text }, cause: text === words ? error : new Error(text) };
}

export function unavailable(text: string, cause?: unknown): Failed {
  return cause === undefined ? { failure: { kind: 'unavailable', text } } : { failure: { kind: 'unavailable', text }, cause };
}

/** The client says that its owner has closed it. */
export function closed(text: string): Failed {
  return { failure: { kind: 'closed', text } };
}

/** More of a text says no more. */
const LONGEST_TEXT = 1_000;

export function shortened(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}... (${text.length} characters)` : text;
}

/** A server's error text begins with a code word in capitals. No library's own error does, nor the operating system's. */
const CODE_WORD = /^-?(?!(?:TLS|SSL|TCP|DNS|HTTP|HTTPS|IO) )[A-Z][A-Z0-9_]+ /;

/** The server's own words, if the error is its answer. */
export function serverText(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || 'syscall' in error) return undefined;
  const text = textOf(error);
  return CODE_WORD.test(text) ? text : undefined;
}

export function textOf(error: unknown): string {
  if (!(typeof error === 'object' && error !== null && 'message' in error)) return String(error);
  if (typeof error.message === 'string' && error.message !== '') return error.message;
  // Several addresses were tried: the error of the whole has no words of its own.
  return 'errors' in error && Array.isArray(error.errors) && error.errors.length > 0 ? textOf(error.errors[0]) : String(error);
}

