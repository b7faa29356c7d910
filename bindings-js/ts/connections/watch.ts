/** Events of a user's client. */

interface Emitter {
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
}

type Handlers = Readonly<Record<string, () => void>>;

interface Watched {
  readonly watchers: Set<Handlers>;
  readonly listeners: Map<string, () => void>;
}

const clients = new WeakMap<Emitter, Watched>();

/** Listens to a client, with one listener an event however many managers share the client. Answers how to stop. */
export function watch(client: Emitter, handlers: Handlers): () => void {
  const watched = clients.get(client) ?? { watchers: new Set(), listeners: new Map() };
  clients.set(client, watched);
  watched.watchers.add(handlers);
  for (const event of Object.keys(handlers)) {
    if (watched.listeners.has(event)) continue;
    const listener = (): void => {
      for (const watcher of [...watched.watchers]) watcher[event]?.();
    };
    watched.listeners.set(event, listener);
    client.on(event, listener);
  }
  return () => {
    watched.watchers.delete(handlers);
    if (watched.watchers.size > 0) return;
    for (const [event, listener] of watched.listeners) client.off(event, listener);
    watched.listeners.clear();
    clients.delete(client);
  };
}
