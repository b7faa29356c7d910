/** Helpers for connections that carry no other commands: see `Link.open`. */

/** Closes a connection when `over` aborts, or now if it already has. Errors of `close` are ignored. */
export function closeOnAbort(over: AbortSignal, close: () => void): void {
  const closeIt = (): void => {
    try {
      close();
    } catch {
      // Nothing could catch an error of an event listener. The connection may already be closed.
    }
  };
  if (over.aborted) closeIt();
  else over.addEventListener('abort', closeIt, { once: true });
}

/** Picks a random node of a cluster, a connected one if there is one. */
export function pickNode<Node>(nodes: readonly Node[], isConnected: (node: Node) => boolean): Node | undefined {
  const connected = nodes.filter(isConnected);
  const candidates = connected.length > 0 ? connected : nodes;
  return candidates[Math.floor(Math.random() * candidates.length)];
}
