/** Connections that nothing else goes over, see `Link.open`. */

/** Closes it when it is over, which it may be by now. What the library says to that, e.g. as it is closed already, is no matter. */
export function onceOver(over: AbortSignal, close: () => void): void {
  const closeIt = (): void => {
    try {
      close();
    } catch {
      // A listener's error would be nobody's to catch.
    }
  };
  if (over.aborted) closeIt();
  else over.addEventListener('abort', closeIt, { once: true });
}

/** Any one of a cluster's nodes, of those that are connected if there are some: another may be down. */
export function oneOf<Node>(nodes: readonly Node[], isConnected: (node: Node) => boolean): Node | undefined {
  const connected = nodes.filter(isConnected);
  const candidates = connected.length > 0 ? connected : nodes;
  return candidates[Math.floor(Math.random() * candidates.length)];
}
