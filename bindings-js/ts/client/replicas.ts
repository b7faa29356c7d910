/**
 * Waits until enough replicas have a new lease.
 *
 * `WAIT` covers only the writes of its own connection, and blocks that connection. So this opens a connection of its own and
 * writes to the lease over it. Replicas receive that write after the grant, so a replica that confirms the write also has the
 * grant. The write finds the lease only on the server that granted it, not on one that was promoted since. Each call opens a
 * new connection, because an old one could still lead to an old primary.
 *
 * https://redis.io/docs/latest/commands/wait/
 */

import { type Address, type CallResult, type Failed, type Link, type Reply, toFailed } from '../connections/index.js';
import type { Command } from '../engine/index.js';
import { onAbort } from '../support/abort.js';

/** The checked options. The timeout is in milliseconds. */
export interface ReplicaSettings {
  readonly min: number;
  readonly timeout: number;
}

/** How many replicas have a lease, or how the lease was lost, or why the question failed. */
export type ReplicaResult = { readonly replicas: number } | { readonly loss: 'gone' | 'taken' } | Failed;

/**
 * Asks how many replicas have the lease. `touch` is a write to the lease, by digest and by source. Each step takes at most
 * `limit` ms; the wait for the replicas takes at most `timeout` more. Rejects with the reason of `unwanted` when that aborts.
 */
export async function confirm(
  link: Link,
  touch: readonly Command[],
  { min, timeout }: ReplicaSettings,
  limit: number,
  unwanted: AbortSignal,
): Promise<ReplicaResult> {
  const [digest, source] = touch.map(({ words }) => words);
  if (link.open === undefined || digest === undefined || source === undefined) return { loss: 'gone' };
  const key = digest[3] ?? '';
  let moved: Address | undefined;
  // The first server may not have the slot. Its MOVED says which one does, so the second attempt goes there.
  for (let again = true; ; again = false) {
    const over = new AbortController();
    const within = <T>(step: Promise<T>, time: number): Promise<T> => inTime(step, time, unwanted);
    try {
      const connection = await within(link.open(key, limit + timeout, over.signal, moved), limit);
      let answer = await within(connection.call(digest), limit);
      if (isRefused(answer, 'NOSCRIPT')) answer = await within(connection.call(source), limit);
      moved = movedTo(answer);
      if (again && moved !== undefined) continue;
      if (!('reply' in answer)) return answer;
      const found = firstWord(answer.reply);
      if (found !== 'renewed') return { loss: found === 'taken' ? 'taken' : 'gone' };
      const confirmed = await within(connection.call(['WAIT', `${min}`, `${Math.ceil(timeout)}`]), limit + timeout);
      if (!('reply' in confirmed)) return confirmed;
      return { replicas: Number(confirmed.reply) };
    } catch (error) {
      if (unwanted.aborted) throw unwanted.reason;
      return error === LATE ? { failure: { kind: 'timed-out' } } : toFailed(error);
    } finally {
      over.abort();
    }
  }
}

const LATE = Symbol('late');

/** Waits for `step`. Rejects with `LATE` after `time` ms, and with the reason of `unwanted` when that aborts. */
async function inTime<T>(step: Promise<T>, time: number, unwanted: AbortSignal): Promise<T> {
  let end = (): void => {};
  const ended = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(LATE), time);
    const stopListening = onAbort(unwanted, () => reject(unwanted.reason));
    if (unwanted.aborted) reject(unwanted.reason);
    end = () => {
      clearTimeout(timer);
      stopListening();
    };
  });
  try {
    return await Promise.race([step, ended]);
  } finally {
    end();
  }
}

function isRefused(answer: CallResult, code: string): boolean {
  return 'failure' in answer && answer.failure.kind === 'refused' && answer.failure.text.startsWith(code);
}

/** `MOVED <slot> <host>:<port>`. */
function movedTo(answer: CallResult): Address | undefined {
  if (!('failure' in answer) || answer.failure.kind !== 'refused') return undefined;
  const [, host, port] = /^MOVED \d+ (.+):(\d+)$/.exec(answer.failure.text) ?? [];
  return host === undefined ? undefined : { host, port: Number(port) };
}

function firstWord(reply: Reply): string {
  const word = Array.isArray(reply) ? (reply as readonly unknown[])[0] : undefined;
  return word instanceof Uint8Array ? new TextDecoder().decode(word) : String(word);
}
