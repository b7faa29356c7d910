/** Listens to the signals that end waits. */

import { InvalidOptionError } from './errors.js';

/** Who wants to hear of one signal. */
interface Waits {
  readonly aborts: Set<() => void>;
  tell(): void;
}

const waiting = new WeakMap<AbortSignal, Waits>();

/**
 * Calls `abort` when the signal aborts; answers how to stop listening. There is one listener a signal, whatever the number
 * of waits: a service may pass the one signal of its shutdown to all of them, and Node warns of more than ten.
 */
export function onAbort(signal: AbortSignal, abort: () => void): () => void {
  const waits = waiting.get(signal) ?? listen(signal);
  waits.aborts.add(abort);
  return () => {
    waits.aborts.delete(abort);
    if (waits.aborts.size === 0 && waiting.get(signal) === waits) stopListening(signal, waits);
  };
}

function listen(signal: AbortSignal): Waits {
  const aborts = new Set<() => void>();
  const waits = {
    aborts,
    // Without `this`, which is another object where the signal is a wrapper around a real one.
    tell: () => {
      waiting.delete(signal);
      for (const abort of aborts) abort();
    },
  };
  try {
    signal.addEventListener('abort', waits.tell, { once: true });
  } catch (cause) {
    throw new InvalidOptionError('signal', 'can not be listened to: give an AbortSignal', { cause });
  }
  waiting.set(signal, waits);
  return waits;
}

function stopListening(signal: AbortSignal, { tell }: Waits): void {
  waiting.delete(signal);
  try {
    signal.removeEventListener('abort', tell);
  } catch {
    // No real signal throws here, and nobody is left to hear of it: this is the middle of a grant.
  }
}
