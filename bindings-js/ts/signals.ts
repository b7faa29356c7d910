/** Listens to the signals that end waits. */

/** Who wants to hear of each signal that is waited under. */
const waiting = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `abort` when the signal aborts; answers how to stop listening. There is one listener a signal, whatever the number
 * of waits: a service may pass the one signal of its shutdown to all of them, and Node warns of more than ten.
 */
export function onAbort(signal: AbortSignal, abort: () => void): () => void {
  let all = waiting.get(signal);
  if (all === undefined) {
    all = new Set();
    waiting.set(signal, all);
    signal.addEventListener('abort', tellAll, { once: true });
  }
  all.add(abort);
  const told = all;
  return () => {
    told.delete(abort);
    if (told.size > 0 || waiting.get(signal) !== told) return;
    waiting.delete(signal);
    signal.removeEventListener('abort', tellAll);
  };
}

function tellAll(this: AbortSignal): void {
  const all = waiting.get(this);
  waiting.delete(this);
  for (const abort of all ?? []) abort();
}
