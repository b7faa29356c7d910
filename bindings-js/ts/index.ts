/** Distributed locks over Redis and Valkey, with fencing tokens, fair queues and a signal that aborts when a lock is lost. */

export type { Election, ElectionOptions, Term } from './api/election.js';
export type { Lease } from './api/lease.js';
export type { Lock, ReadWriteLock } from './api/lock.js';
export { LockManager } from './api/lock-manager.js';
export type {
  AcquireOptions, CloseOptions, DetachOptions, ForceReleaseOptions, LockManagerOptions, LockOptions, MultiOptions, OnceOptions, QuorumOptions, SemaphoreOptions,
} from './api/options.js';
export type { Leader, Observer } from './api/observer.js';
export type { OnceCallOptions } from './api/once.js';
export { Owner } from './api/owner.js';
export { type Duration, parseDuration, type ReplicaOptions } from './api/validate.js';
export type { LockManagerSnapshot, RequestOptions } from './api/web-locks.js';
export type {
  AcquireEvent, AcquiringEvent, BlockedEvent, Closed, EventMode, GrantedEvent, LockInfo, LockManagerEvents, LostEvent, NotGrantedEvent,
  ReconnectEvent, ReleaseEvent, StoredEvent, WorkerEvent,
} from './client/index.js';
export type {
  Connection, CustomConnection, GlideConnection, InMemoryConnection, IoRedisConnection, NodeRedisClusterConnection, NodeRedisConnection, ScriptlessConnection,
} from './connections/index.js';
export type { Holder, Inspection, Mode, ReleaseOutcome, Waiter } from './engine/index.js';
export type { RenewInOptions } from './renewer/index.js';
export * from './support/errors.js';
