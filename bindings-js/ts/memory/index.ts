/** `leasehold/testing`: a server in memory, for tests without Redis. */

export { Clock } from './clock.js';
export { MemoryServer, type MemoryServerOptions } from './server.js';
