/** Summarises the votes of a quorum for messages. */

import type { Vote } from './errors.js';

/** `2 of 5 busy, 1 timed out (10.0.0.3:6379), 2 agreed`. */
export function describeVotes(votes: readonly Vote[]): string {
  const servers = new Map<Vote['answer'], string[]>();
  for (const { answer, server } of votes) servers.set(answer, [...(servers.get(answer) ?? []), server]);
  const parts = [...servers].map(([answer, of], place) => {
    const among = place === 0 ? ` of ${votes.length}` : '';
    const which = failed(answer) ? ` (${of.join(', ')})` : '';
    return `${of.length}${among} ${wordsOf(answer)}${which}`;
  });
  return parts.join(', ');
}

/** Whether the server gave an error, instead of agreeing or answering that the lock is busy. */
function failed(answer: Vote['answer']): boolean {
  return answer !== null && answer !== 'agreed' && answer !== 'busy';
}

function wordsOf(answer: Vote['answer']): string {
  if (answer === null) return 'not answered yet';
  return answer === 'timed-out' ? 'timed out' : answer;
}
