/** The commands of a client that takes a lock ahead of all waiters. */

import { textOf } from './command.js';

/**
 * Changes the commands that try to take a lock, and that take it from its holders.
 *
 * The last argument of a script names the fleet. With `native`, a script that frees the lock grants the next waiter, and nobody
 * enters before a waiter. With `mixed` it does neither. So both commands, one after the other, take the lock in the first
 * waiter's place, and the waiters keep their places. All other commands stay native: a release grants the next waiter.
 *
 * They are sent with their texts. A server that doesn't know a script would refuse its digest, and the second command would
 * overtake the first one.
 */
export function aheadOfWaiters(words: readonly string[]): readonly string[] {
  const [command, digest = '', keys] = words;
  const args = words.slice(3 + Number(keys));
  const takesAFleet = args.at(-1) === 'native';
  const isTry = args[3] === 'try';
  const isForce = args.length === 3;
  if (command !== 'EVALSHA' || !takesAFleet || !(isTry || isForce)) return words;
  return ['EVAL', textOf(digest), ...words.slice(2, -1), 'mixed'];
}
