/** Helpers for dedicated connections, which carry no other commands: see `Link.openDedicated`. */

/** Closes a connection when the signal aborts, or now if it already has. Errors of `close` are ignored. */
export function closeOnAbort(signal: AbortSignal, close: () => void): void {
  const closeQuietly = (): void => {
    try {
      close();
    } catch {
      // Nothing could catch an error of an event listener. The connection may already be closed.
    }
  };
  if (signal.aborted) closeQuietly();
  else signal.addEventListener('abort', closeQuietly, { once: true });
}

/** Picks a random node of a cluster, a connected one if there is one. */
export function pickNode<Node>(nodes: readonly Node[], isConnected: (node: Node) => boolean): Node | undefined {
  const connected = nodes.filter(isConnected);
  const candidates = connected.length > 0 ? connected : nodes;
  return candidates[Math.floor(Math.random() * candidates.length)];
}
