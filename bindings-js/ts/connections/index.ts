/** The user's connections: an adapter for each client library, behind one interface, `Link`. */

export type { CustomConnection } from './custom.js';
export type { Address, CallResult, DedicatedConnection, DedicatedOptions, Failed, Failure, Link, LinkTime, Reply, Scalar, SubscriptionListener } from './link.js';
export {
  type Connection, type GlideConnection, type InMemoryConnection, type IoRedisConnection, type NodeRedisClusterConnection, type NodeRedisConnection, recognise, type ScriptlessConnection,
} from './recognise.js';
export { messageOf, serverMessage, toFailed, truncate } from './results.js';
