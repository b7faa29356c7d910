/** Distributed locks over Redis and Valkey, with fencing tokens, fair queues and a signal that aborts when a lock is lost. */

export type {
  Connection, GlideConnection, IoRedisConnection, NodeRedisClusterConnection, NodeRedisConnection,
} from './connections/connection.js';
export type { CustomConnection } from './connections/custom.js';
export type { Closed, LockInfo } from './client/client.js';
export type { Duration } from './api/duration.js';
export type { Holder, Inspection, Mode, ReleaseOutcome, Waiter } from './engine/engine.js';
export * from './support/errors.js';
export type { Lease } from './api/lease.js';
export type { Lock, ReadWriteLock } from './api/lock.js';
export { LockManager } from './api/lock-manager.js';
export type { AcquireOptions, LockManagerOptions, LockOptions, QuorumOptions } from './api/options.js';
export type { MultiOptions } from './api/multi.js';
export { Owner } from './api/owner.js';
export type { ReplicaOptions } from './client/replicas.js';
export type { SemaphoreOptions } from './api/semaphore.js';
export type { LockManagerSnapshot, RequestOptions } from './api/web-locks.js';
