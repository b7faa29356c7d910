/** Listens to the signals that end waits. */

import { InvalidOptionError } from './errors.js';

/** The waits that one signal ends. */
interface Waits {
  readonly aborts: Set<() => void>;
  tell(): void;
}

const waiting = new WeakMap<AbortSignal, Waits>();

/**
 * Calls `abort` when the signal aborts. Returns a function that stops listening. All waits share one listener on a signal: a
 * service may pass its shutdown signal to all of them, and Node warns about more than ten listeners.
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
    // Doesn't use `this`, because `this` is another object if the signal wraps a real one.
    tell: () => {
      waiting.delete(signal);
      for (const abort of aborts) abort();
    },
  };
  try {
    signal.addEventListener('abort', waits.tell, { once: true });
  } catch (cause) {
    throw new InvalidOptionError('signal', "can't be listened to: give an AbortSignal", { cause });
  }
  waiting.set(signal, waits);
  return waits;
}

function stopListening(signal: AbortSignal, { tell }: Waits): void {
  waiting.delete(signal);
  try {
    signal.removeEventListener('abort', tell);
  } catch {
    // A real signal never throws here. An error would reach no caller, because this runs in the middle of a grant.
  }
}
