/** Connections that nothing else goes over, see `Link.open`. */

/** Closes it when it is over, which it may be by now. */
export function onceOver(over: AbortSignal, close: () => void): void {
  if (over.aborted) close();
  else over.addEventListener('abort', close, { once: true });
}
