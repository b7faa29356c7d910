/** Listens to the signals that end waits, and recognises the errors that come from a signal. */

import { InvalidOptionError } from './errors.js';

/** What to do when one signal aborts. */
interface AbortListeners {
  readonly listeners: Set<() => void>;
  /** The only listener on the signal itself. */
  run(): void;
}

const listening = new WeakMap<AbortSignal, AbortListeners>();

/**
 * Calls `listener` when the signal aborts. Returns a function that stops listening. All waits share one listener on a signal. A
 * service may pass its shutdown signal to all of them, and Node warns about more than ten listeners.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  const shared = listening.get(signal) ?? startListening(signal);
  shared.listeners.add(listener);
  return () => {
    shared.listeners.delete(listener);
    if (shared.listeners.size === 0 && listening.get(signal) === shared) stopListening(signal, shared);
  };
}

function startListening(signal: AbortSignal): AbortListeners {
  const listeners = new Set<() => void>();
  const shared = {
    listeners,
    // Doesn't use `this`, because `this` is another object if the signal wraps a real one.
    run: () => {
      listening.delete(signal);
      for (const listener of listeners) listener();
    },
  };
  try {
    signal.addEventListener('abort', shared.run, { once: true });
  } catch (cause) {
    throw new InvalidOptionError('signal', "can't be listened to: give an AbortSignal", { cause });
  }
  listening.set(signal, shared);
  return shared;
}

function stopListening(signal: AbortSignal, { run }: AbortListeners): void {
  listening.delete(signal);
  try {
    signal.removeEventListener('abort', run);
  } catch {
    // A real signal never throws here. An error would reach no caller, because this runs in the middle of a grant.
  }
}

/** What errors are called that say only that a signal aborted: those of the platform, and axios's. */
const ABORTS: readonly unknown[] = ['AbortError', 'CanceledError'];
/** How many causes of an error to look at. A chain of causes may have no end. */
const MOST_CAUSES = 10;

/**
 * Whether an error only passes on that this signal has aborted: the error or one of its causes is the signal's reason, or an
 * `AbortError` without a cause. An `AbortError` with another cause comes from another signal.
 */
export function isAbortOf({ aborted, reason }: Pick<AbortSignal, 'aborted' | 'reason'>, error: unknown): boolean {
  if (!aborted) return false;
  try {
    let cause = error;
    for (let depth = 0; depth < MOST_CAUSES && cause !== undefined; depth++) {
      if (cause === reason) return true;
      const { name, cause: next } = cause as { name?: unknown; cause?: unknown };
      if (next === undefined || next === null) return ABORTS.includes(name);
      cause = next;
    }
  } catch {
    // An error with a getter that throws, or a value without properties, such as `null`.
  }
  return false;
}
