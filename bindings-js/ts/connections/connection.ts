/** The connections that a manager accepts. Clients are recognised by their shape, so that any version of a library fits. */

import type { CustomConnection } from './custom.js';

/** Any function. */
type Method = (...args: never[]) => unknown;

/** A `Redis` or a `Cluster` of ioredis 5 or 6. */
export interface IoRedisConnection {
  readonly status: string;
  readonly callBuffer: Method;
  readonly sendCommand: Method;
  readonly duplicate: Method;
  readonly on: Method;
  readonly off: Method;
}

/** A client that node-redis's `createClient` makes. The similar result of its `createSentinel` is not accepted. */
export interface NodeRedisConnection {
  readonly getSentinelNode?: never;
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly sendCommand: Method;
  readonly duplicate: Method;
  readonly on: Method;
  readonly off: Method;
}

/** A cluster that node-redis's `createCluster` makes. */
export interface NodeRedisClusterConnection {
  readonly masters: readonly object[];
  readonly sendCommand: Method;
  readonly nodeClient: Method;
}

/** A `GlideClient` or a `GlideClusterClient` of `@valkey/valkey-glide`. */
export interface GlideConnection {
  readonly customCommand: Method;
  readonly close: Method;
}

/** A client of ioredis, node-redis or GLIDE, or a {@link CustomConnection} of your own. */
export type Connection =
  | IoRedisConnection
  | NodeRedisConnection
  | NodeRedisClusterConnection
  | GlideConnection
  // A function also has a `call`, but is not a connection.
  | (CustomConnection & { readonly bind?: never });
