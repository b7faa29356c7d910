/** The managers behind the drop-ins: one for each client, or list of clients, however many locks a program makes over it. */

import type { Cluster, Redis } from 'ioredis';

import { InvalidOptionError, LockManager, type QuorumOptions } from '../index.js';
import { IdMap } from '../support/id-map.js';

/** What the originals take: a client of ioredis. */
export type Client = Redis | Cluster;

/** A manager that all locks over the same clients share. */
export interface SharedManager {
  /** Opens it, or returns the one that is open. */
  readonly open: () => LockManager | Promise<LockManager>;
  /** What the loss of an exclusive lease is reported to, by its fence. The lease's own `lost` would cost a call into the engine. */
  readonly losses: IdMap<() => void>;
}

/**
 * How long all managers wait for an answer. The originals wait for a slow server. Half a second also suits servers in several
 * zones. Tests over real servers wait longer.
 */
export const answers: Pick<QuorumOptions, 'nodeTimeout' | 'responseTimeout'> = { nodeTimeout: 500 };

/** The open managers, by their first client. They live as long as that client. */
const opened = new WeakMap<Client, Opened[]>();

interface Opened {
  readonly clients: readonly Client[];
  readonly mixedFleet: boolean;
  readonly manager: SharedManager;
}

/**
 * Checks the clients, and returns what opens their manager: a plain one for one client, a quorum for several. Sends nothing.
 *
 * Throws `invalid-option` or `unsupported` for clients that the engine can't use.
 */
export function managerOf(clients: readonly Client[], mixedFleet: boolean): SharedManager {
  const [first] = clients;
  if (first === undefined) throw new InvalidOptionError('clients', 'is empty: give at least one client');
  if (typeof first !== 'object' || first === null) return makeManager(clients, mixedFleet);
  const known = opened.get(first);
  // Programs make a lock for each use, so this makes no function.
  if (known !== undefined) for (const one of known) if (one.mixedFleet === mixedFleet && isSameList(one.clients, clients)) return one.manager;
  const manager = makeManager(clients, mixedFleet);
  opened.set(first, [...(known ?? []), { clients, mixedFleet, manager }]);
  return manager;
}

/**
 * What to extend a lease to, so that the server keeps it for `ttl`, as the originals do: an extension adds what the engine
 * takes off for drift and for the notice of a loss. It is never less than the shortest TTL.
 */
export function withoutMargins(ttl: number): number {
  return Math.max(10, Math.floor((ttl - 1) * 0.94) - 2, Math.floor((ttl - 1) * 0.99) - 52);
}

function makeManager(clients: readonly Client[], mixedFleet: boolean): SharedManager {
  // A drop-in never closes its manager, because that would release locks. A label would stay on the server.
  const options = { mixedFleet, prefix: keyPrefixOf(clients), label: '' };
  const losses: SharedManager['losses'] = new IdMap();
  // The originals emit no warning when a lock has expired, nor does a manager that has a listener.
  const watched = (manager: LockManager): LockManager => manager.on('lost', ({ fence }) => {
    const lose = losses.get(fence);
    losses.delete(fence);
    lose?.();
  });
  if (clients.length > 1) return { open: openQuorum(clients, options, watched), losses };
  const { responseTimeout } = answers;
  const manager = watched(new LockManager(clients[0] as Client, { ...options, responseTimeout }));
  return { open: () => manager, losses };
}

type Watch = (manager: LockManager) => LockManager;

function openQuorum(clients: readonly Client[], options: { readonly mixedFleet: boolean; readonly prefix: string }, watched: Watch): SharedManager['open'] {
  if (clients.length % 2 === 0) {
    throw new InvalidOptionError('clients', `lists ${clients.length} clients: list one, or an odd number of independent servers or clusters, so that there is a majority`);
  }
  let manager: Promise<LockManager> | undefined;
  return () => {
    manager ??= LockManager.quorum(clients, { ...options, ...answers }).then(watched);
    // A quorum that could not be opened is opened again by the next call.
    manager.catch(() => (manager = undefined));
    return manager;
  };
}

/** The originals let ioredis put its `keyPrefix` before each key. The engine's commands ignore it. */
function keyPrefixOf(clients: readonly Client[]): string {
  const prefixes = new Set(clients.map((client) => client?.options?.keyPrefix ?? ''));
  if (prefixes.size > 1) throw new InvalidOptionError('clients', 'have different `keyPrefix` options: give all of them the same');
  return [...prefixes][0] ?? '';
}

function isSameList(one: readonly Client[], other: readonly Client[]): boolean {
  return one.length === other.length && one.every((client, at) => client === other[at]);
}
