/** One client of the servers: it drives the engine and keeps the state of its leases and calls. */

export { type Closed, Driver, type LockInfo } from './client.js';
export { described, isNotReady } from './engine-errors.js';
export type { Held } from './lease-state.js';
export type { Replicas } from './replicas.js';
export { type Asked, versionProblem } from './version.js';
