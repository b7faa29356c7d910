/** Work under a lease. */

import { LostError } from './errors.js';
import type { Lease } from './lease.js';

/** Does the work, releases, and answers what the work did if the lease outlived it. Never masks the work's own error. */
export async function runUnder<T>(lease: Lease, work: (lease: Lease) => T | PromiseLike<T>): Promise<T> {
  const { signal } = lease;
  let result: T;
  try {
    result = await orInterrupted(signal, invoke(work, lease));
  } catch (error) {
    await lease.release().catch(ignore);
    throw error;
  }
  const outcome = await lease.release().catch(ignore);
  if (signal.aborted) throw signal.reason;
  // The deadline may have passed a moment before it was told.
  if (outcome === 'already-expired') throw new LostError(lease.name, 'expired');
  if (outcome === 'not-owner') throw new LostError(lease.name, 'taken');
  return result;
}

async function invoke<T>(work: (lease: Lease) => T | PromiseLike<T>, lease: Lease): Promise<T> {
  return work(lease);
}

/** What the work does, or a rejection with the signal's reason, soon after it aborts. */
function orInterrupted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const interrupt = (): void => {
      // Work that heeds the signal gets the time to end with an error of its own.
      setTimeout(() => reject(signal.reason), 0);
    };
    signal.addEventListener('abort', interrupt, { once: true });
    if (signal.aborted) interrupt();
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', interrupt));
  });
}

function ignore(): undefined {}
