/** What a manager can be made over: the clients of the known libraries by their shape, whichever version made them, and one's own. */

import type { CustomConnection } from './connections/custom.js';

/** Any function. */
type Method = (...args: never[]) => unknown;

/** A `Redis` or `Cluster` of ioredis. */
export interface IoRedisConnection {
  readonly status: string;
  readonly callBuffer: Method;
  readonly sendCommand: Method;
  readonly duplicate: Method;
  readonly on: Method;
  readonly off: Method;
}

/** What node-redis's `createClient` makes; not what its `createSentinel` makes, which looks alike. */
export interface NodeRedisConnection {
  readonly getSentinelNode?: never;
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly sendCommand: Method;
  readonly duplicate: Method;
  readonly on: Method;
  readonly off: Method;
}

/** What node-redis's `createCluster` makes. */
export interface NodeRedisClusterConnection {
  readonly masters: readonly object[];
  readonly sendCommand: Method;
  readonly nodeClient: Method;
}

/** A `GlideClient` or `GlideClusterClient`. */
export interface GlideConnection {
  readonly customCommand: Method;
  readonly close: Method;
}

/** Any client that is recognised, or a connection of your own. */
export type Connection =
  | IoRedisConnection
  | NodeRedisConnection
  | NodeRedisClusterConnection
  | GlideConnection
  // A function has a `call`, too, and is none.
  | (CustomConnection & { readonly bind?: never });
