/** The user's connections: an adapter for each client library, behind one interface, `Link`. */

export type { CustomConnection } from './custom.js';
export {
  type Address, type Answered, type CallResult, type DedicatedConnection, type DedicatedOptions, type Failed, type Failure, type Link, type LinkTime, type Reply, type Scalar,
  type SubscriptionListener, type Time, timeOf,
} from './link.js';
export {
  type Connection, type GlideConnection, type InMemoryConnection, type IoRedisConnection, type NodeRedisClusterConnection, type NodeRedisConnection, recognise, type ScriptlessConnection,
} from './recognise.js';
export { isOfReplica, messageOf, serverMessage, toFailed, truncate, unavailable } from './results.js';
