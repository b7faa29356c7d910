/** Which names can be locks. The engine has the same rules; here they are told as soon as the name is given. */

import { InvalidOptionError } from './errors.js';
import { text } from './options.js';

/** The longest name with its prefix, in bytes. */
const MAX_BYTES = 64 * 1024;

/** A lock's name, checked together with the manager's prefix. */
export function readName(name: unknown, prefix: string): string {
  const given = text('name', name);
  const problem = problemOf(given, prefix + given);
  if (problem !== undefined) throw new InvalidOptionError('name', problem);
  return given;
}

function problemOf(name: string, key: string): string | undefined {
  if (name === '') return 'is empty: give the lock a name';
  // Two such names would be one on the wire.
  if (/\p{Surrogate}/u.test(name)) return 'has half of a surrogate pair: it is no Unicode text';
  if (isTooLong(key)) return 'is longer than 64 KiB with its prefix: hash it first';
  if (key.startsWith('leasehold:')) return 'begins with `leasehold:`, which is kept for side keys: choose another beginning';
  if (/[{}]/.test(key) && !hasHashTag(key)) {
    return 'has a brace but no hash tag like `{tag}`: a cluster could not keep its keys together';
  }
  return undefined;
}

/** No character takes more than three bytes for each of its units. */
function isTooLong(key: string): boolean {
  return key.length > MAX_BYTES / 3 && new TextEncoder().encode(key).length > MAX_BYTES;
}

/** Redis's rule: what stands between the first `{` and the next `}`, if that is not empty. */
function hasHashTag(key: string): boolean {
  return /^[^{]*\{[^}]+\}/.test(key);
}
