/** One client of the servers: it drives the engine, and keeps the state of its operations and leases. */

export { Client, type Closed, type LockInfo } from './client.js';
export type {
  AcquireEvent, AcquiringEvent, BlockedEvent, EventMode, GrantedEvent, LockManagerEvents, LostEvent, NotGrantedEvent, ReconnectEvent, ReleaseEvent, StoredEvent, WorkerEvent,
} from './events.js';
export { describeFailure } from './engine-errors.js';
export type { LeaseState } from './lease-state.js';
export { isNotReady } from './refusals.js';
export { type VersionCheckResult, versionProblem } from './version.js';
