/** Distributed locks over Redis and Valkey, with fencing tokens, fair queues and a signal that aborts when a lock is lost. */

export type {
  Connection, GlideConnection, IoRedisConnection, NodeRedisClusterConnection, NodeRedisConnection,
} from './connection.js';
export type { CustomConnection } from './connections/custom.js';
export type { Closed, LockInfo } from './driver.js';
export type { Duration } from './duration.js';
export type { Holder, Inspection, Mode, ReleaseOutcome, Waiter } from './engine.js';
export * from './errors.js';
export type { Lease } from './lease.js';
export type { Lock, ReadWriteLock } from './lock.js';
export { LockManager } from './lock-manager.js';
export type { AcquireOptions, LockManagerOptions, LockOptions, QuorumOptions } from './options.js';
export type { MultiOptions } from './multi.js';
export { Owner } from './owner.js';
export type { ReplicaOptions } from './replicas.js';
export type { SemaphoreOptions } from './semaphore.js';
export type { LockManagerSnapshot, RequestOptions } from './web-locks.js';
