/** The user's connections: an adapter for each client library, behind one interface, `Link`. */

export type { Connection, GlideConnection, IoRedisConnection, NodeRedisClusterConnection, NodeRedisConnection } from './connection.js';
export type { CustomConnection } from './custom.js';
export type { Address, CallResult, Failed, Failure, Link, Reply, Scalar, SubscriptionListener } from './link.js';
export { recognise } from './recognise.js';
export { messageOf, serverMessage, toFailed, truncate } from './results.js';
