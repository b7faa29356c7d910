/** The rules for lock names. The engine has the same rules; checking them here reports a bad name at once. */

import { InvalidOptionError } from '../support/errors.js';
import { text } from './options.js';

/** The maximum length of a name with its prefix, in bytes. */
const MAX_BYTES = 64 * 1024;

/** Checks a lock's name together with the manager's prefix. */
export function readName(name: unknown, prefix: string): string {
  const given = text('name', name);
  const problem = problemOf(given, prefix + given);
  if (problem !== undefined) throw new InvalidOptionError('name', problem);
  return given;
}

function problemOf(name: string, key: string): string | undefined {
  if (name === '') return 'is empty: give the lock a name';
  // Two such names would become the same key in UTF-8.
  if (/\p{Surrogate}/u.test(name)) return 'has half of a surrogate pair: give valid Unicode text';
  if (isTooLong(key)) return 'is longer than 64 KiB with its prefix: hash it first';
  if (key.startsWith('leasehold:')) return 'begins with `leasehold:`, which is reserved: choose another name or prefix';
  if (/[{}]/.test(key) && !hasHashTag(key)) {
    return 'has a brace but no valid hash tag: write one like `{tag}`, or remove the brace';
  }
  return undefined;
}

/** A UTF-16 unit takes at most three bytes in UTF-8, so only long keys need to be encoded. */
function isTooLong(key: string): boolean {
  return key.length > MAX_BYTES / 3 && new TextEncoder().encode(key).length > MAX_BYTES;
}

/** Redis's rule: the hash tag is the text between the first `{` and the next `}`, if it is not empty. */
function hasHashTag(key: string): boolean {
  return /^[^{]*\{[^}]+\}/.test(key);
}
