/** Runs work under a lease. */

import { LostError } from '../support/errors.js';
import type { Lease } from './lease.js';

/**
 * Runs the work, releases the lease, and resolves to the result of the work if the lease was valid to the end. An error of the
 * work always takes precedence.
 */
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
  // The lease may have expired a moment before the loss is reported.
  if (outcome === 'already-expired') throw new LostError(lease.name, 'expired');
  if (outcome === 'not-owner') throw new LostError(lease.name, 'taken');
  return result;
}

async function invoke<T>(work: (lease: Lease) => T | PromiseLike<T>, lease: Lease): Promise<T> {
  return work(lease);
}

/** Settles as the work does, or rejects with the signal's reason soon after the signal aborts. */
function orInterrupted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const interrupt = (): void => {
      // Work that listens to the signal gets time to fail with an error of its own.
      setTimeout(() => reject(signal.reason), 0);
    };
    signal.addEventListener('abort', interrupt, { once: true });
    if (signal.aborted) interrupt();
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', interrupt));
  });
}

function ignore(): undefined {}
