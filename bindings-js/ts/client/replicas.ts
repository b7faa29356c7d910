/**
 * Waits until enough replicas have a new lease.
 *
 * `WAIT` covers only the writes of its own connection, and blocks that connection. So this opens a dedicated connection and writes
 * to the lease over it. Replicas receive that write after the grant, so a replica that confirms the write also has the grant. The
 * write finds the lease only on the server that granted it, not on one that was promoted since. Each acquire opens a new
 * connection, because an old one could still lead to an old primary.
 *
 * https://redis.io/docs/latest/commands/wait/
 */

import { type Address, type CallResult, type Failed, type Link, type Reply, toFailed } from '../connections/index.js';
import type { Command } from '../engine/index.js';
import { onAbort } from '../support/abort.js';

/** How many replicas must have a lease, and how long to wait for them, in milliseconds. */
export interface ReplicaSettings {
  readonly min: number;
  readonly timeout: number;
}

/** How many replicas have a lease, or how the lease was lost, or why the server could not be asked. */
export type ReplicaResult = { readonly replicas: number } | { readonly loss: 'gone' | 'taken' } | Failed;

interface ReplicaWait {
  readonly link: Link;
  /** A write to the lease, by digest and by source. */
  readonly touch: readonly Command[];
  readonly replicas: ReplicaSettings;
  /** How long each step may take, in milliseconds. The wait for the replicas may take `replicas.timeout` more. */
  readonly stepTimeout: number;
  /** Ends the wait. */
  readonly unwanted: AbortSignal;
}

/** Asks how many replicas have the lease. Rejects with the reason of `unwanted` when that aborts. */
export async function waitForReplicas({ link, touch, replicas: { min, timeout }, stepTimeout, unwanted }: ReplicaWait): Promise<ReplicaResult> {
  const [digest, source] = touch.map(({ words }) => words);
  if (link.openDedicated === undefined || digest === undefined || source === undefined) return { loss: 'gone' };
  const key = digest[3] ?? '';
  const longest = stepTimeout + timeout;
  const within = <T>(ms: number, step: Promise<T>): Promise<T> => inTime(step, ms, unwanted);
  let moved: Address | undefined;
  // The first server may not have the slot. Its MOVED says which one does, so the second attempt goes there.
  for (let mayMove = true; ; mayMove = false) {
    const closing = new AbortController();
    try {
      const connection = await within(stepTimeout, link.openDedicated({ key, timeout: longest, closeOn: closing.signal, moved }));
      let result = await within(stepTimeout, connection.call(digest));
      if (isRefused(result, 'NOSCRIPT')) result = await within(stepTimeout, connection.call(source));
      moved = movedTo(result);
      if (mayMove && moved !== undefined) continue;
      if (!('reply' in result)) return result;
      const status = firstWord(result.reply);
      if (status !== 'renewed') return { loss: status === 'taken' ? 'taken' : 'gone' };
      const confirmed = await within(longest, connection.call(['WAIT', `${min}`, `${Math.ceil(timeout)}`]));
      if (!('reply' in confirmed)) return confirmed;
      return { replicas: Number(confirmed.reply) };
    } catch (error) {
      if (unwanted.aborted) throw unwanted.reason;
      return error === TIMED_OUT ? { failure: { kind: 'timed-out' } } : toFailed(error);
    } finally {
      closing.abort();
    }
  }
}

const TIMED_OUT = Symbol('timed out');

/** Waits for `step`. Rejects with `TIMED_OUT` after `ms`, and with the reason of `unwanted` when that aborts. */
async function inTime<T>(step: Promise<T>, ms: number, unwanted: AbortSignal): Promise<T> {
  let end = (): void => {};
  const ended = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(TIMED_OUT), ms);
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

function isRefused(result: CallResult, code: string): boolean {
  return 'failure' in result && result.failure.kind === 'refused' && result.failure.text.startsWith(code);
}

/** `MOVED <slot> <host>:<port>`. */
function movedTo(result: CallResult): Address | undefined {
  if (!('failure' in result) || result.failure.kind !== 'refused') return undefined;
  const [, host, port] = /^MOVED \d+ (.+):(\d+)$/.exec(result.failure.text) ?? [];
  return host === undefined ? undefined : { host, port: Number(port) };
}

function firstWord(reply: Reply): string {
  const word = Array.isArray(reply) ? (reply as readonly unknown[])[0] : undefined;
  return word instanceof Uint8Array ? new TextDecoder().decode(word) : String(word);
}
