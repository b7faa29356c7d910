/** Listens to the events of a user's client. An event calls all managers that share the client, so it must be a rare one. */

export interface Emitter {
  on(event: string | symbol, listener: (detail: unknown) => void): unknown;
  off(event: string | symbol, listener: (detail: unknown) => void): unknown;
}

type Event = string | symbol;
type Handlers = Readonly<Record<Event, (detail: unknown) => void>>;

interface Watched {
  readonly watchers: Set<Handlers>;
  readonly listeners: Map<Event, (detail: unknown) => void>;
}

const events = (globalThis as { process?: Partial<NodeJS.Process> }).process?.getBuiltinModule?.('node:events');

/** Receives errors without counting as an `error` listener, so that a client without listeners behaves as if we were not there. */
export const ERRORS: Event = events?.errorMonitor ?? 'leasehold:errors';

const clients = new WeakMap<Emitter, Watched>();

/** Listens to a client, with one listener per event for all managers that share the client. Returns a function that stops. */
export function watch(client: Emitter, handlers: Handlers): () => void {
  const watched = clients.get(client) ?? { watchers: new Set(), listeners: new Map() };
  clients.set(client, watched);
  watched.watchers.add(handlers);
  for (const event of Reflect.ownKeys(handlers)) {
    if (watched.listeners.has(event)) continue;
    const listener = (detail: unknown): void => {
      for (const watcher of [...watched.watchers]) watcher[event]?.(detail);
    };
    watched.listeners.set(event, listener);
    client.on(event, listener);
  }
  return () => {
    // A second call does nothing: others may watch the client by now.
    if (!watched.watchers.delete(handlers) || watched.watchers.size > 0) return;
    for (const [event, listener] of watched.listeners) client.off(event, listener);
    watched.listeners.clear();
    clients.delete(client);
  };
}
