/** `leasehold/nestjs`: a module for NestJS 10 and newer, decorators for methods, and a health indicator. */

export { currentLease, Locked, type LockedOptions, Once, type OnceMethodOptions } from './decorators.js';
export { type HealthOptions, type HealthResult, LockHealth, lockHealthToken } from './health.js';
export type { LockKey, LockedMethod } from './key.js';
export { Leader, type LeaderOptions } from './leader.js';
export { LeaseholdModule, type LeaseholdModuleAsyncOptions, type LeaseholdModuleOptions } from './module.js';
export { lockManagerToken } from './tokens.js';
