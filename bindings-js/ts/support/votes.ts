/** How the servers of a quorum answered, and the words for it. */

import type { ErrorCode } from './errors.generated.js';

/** How one server of a quorum answered. */
export interface Vote {
  /** The server's address, or its position in the list (`connection 2`) if the client library doesn't expose the address. */
  readonly server: string;
  /** `agreed`, or why the server did not agree. `null` if the outcome was certain before this server answered. */
  readonly answer: 'agreed' | 'timed-out' | ErrorCode | null;
  /** The message of the server or of the client library. */
  readonly problem?: string | undefined;
}

/** `2 of 5 busy, 1 timed out (10.0.0.3:6379), 2 agreed`. */
export function describeVotes(votes: readonly Vote[]): string {
  const servers = new Map<Vote['answer'], string[]>();
  for (const { answer, server } of votes) servers.set(answer, [...(servers.get(answer) ?? []), server]);
  const parts = [...servers].map(([answer, of], place) => {
    const among = place === 0 ? ` of ${votes.length}` : '';
    const which = failed(answer) ? ` (${of.join(', ')})` : '';
    return `${of.length}${among} ${answerText(answer)}${which}`;
  });
  return parts.join(', ');
}

/** Whether the server gave an error, instead of agreeing or answering that the lock is busy. */
function failed(answer: Vote['answer']): boolean {
  return answer !== null && answer !== 'agreed' && answer !== 'busy';
}

function answerText(answer: Vote['answer']): string {
  if (answer === null) return 'not answered yet';
  return answer === 'timed-out' ? 'timed out' : answer;
}
