/**
 * The options of managers over real servers. On a slow machine, any thread, process or server may stop for ten seconds, and no test may
 * fail because of that. So with these options no answer is late, no lease ends and no waiter loses its place by itself.
 *
 * A test that shortens one of these times awaits its end. Nothing else in the test may depend on it.
 */

import type { LockManagerOptions, QuorumOptions } from '../index.js';

export const GENEROUS = { responseTimeout: '60s', claimWindow: '60s', ttl: '5m', wait: '5m' } as const satisfies LockManagerOptions;

export const GENEROUS_QUORUM = { ...GENEROUS, nodeTimeout: '60s' } as const satisfies QuorumOptions;

/** For a quorum that starts while some servers are dead: it waits for them, but not for long. */
export const QUORUM_WITH_DEAD = { ...GENEROUS_QUORUM, responseTimeout: '12s', nodeTimeout: '12s' } as const satisfies QuorumOptions;

/** The TTL of a lease whose next renewal a test awaits. The renewal comes after ten seconds, and may be twenty seconds late. */
export const RENEWED_SOON = '30s';

/** For a quorum whose next heartbeats and renewals a test awaits. A waiter that is late only loses its place. */
export const SOON_AGAIN = { claimWindow: '3s', ttl: RENEWED_SOON } as const satisfies QuorumOptions;

/** For waiters that poll: their next heartbeat is soon. A waiter that is late only loses its place. */
export const POLLING = { ...GENEROUS, claimWindow: 600 } as const satisfies LockManagerOptions;

/** For a server that stops answering: each call gives up soon. While the server still answers, await only acquires, because they try again. */
export const IMPATIENT = { ...GENEROUS, responseTimeout: 300 } as const satisfies LockManagerOptions;

/** For a lock of a drop-in for redis-semaphore. */
export const GENEROUS_LOCK = { lockTimeout: 300_000, acquireTimeout: 300_000 } as const;

/** How long a lock of a drop-in for node-redlock is kept, in milliseconds. */
export const GENEROUS_DURATION = 300_000;

/** How long a test waits before it fails, in milliseconds: longer than any heartbeat or answer with these options takes. */
export const PATIENCE_MS = 120_000;
