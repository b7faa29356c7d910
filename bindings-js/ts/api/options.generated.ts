// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

import type { RenewInOptions } from '../renewer/index.js';
import type { Duration, ReplicaOptions } from './validate.js';

/** The options of a lock. They override the manager's options; the options of a call override both. */
export interface LockOptions {
  /**
   * How long the server keeps the lease unless it is renewed. A crashed holder blocks the others for this long. A lease
   * that a waiter gets by message lasts only for the claim window until the waiter has answered. 10 ms to 30 days.
   * Default `'30s'`.
   */
  readonly ttl?: Duration | undefined;
  /** The client renews the lease at a third of the TTL. `false` makes a fixed lease. Default `true`. */
  readonly renew?: boolean | undefined;
  /** A renewed lease is lost after this time, with the reason `max-hold`. 10 ms to 30 days. Default: no limit. */
  readonly maxHold?: Duration | undefined;
  /**
   * How long an acquire waits. The default is longer than the default TTL, so a waiter outlasts a crashed holder's
   * lease. `'forever'` waits without end. `tryAcquire` does not wait for the lock: there, `wait` limits how long the
   * server may take to answer. 1 ms to 30 days. Default `'60s'`.
   */
  readonly wait?: Duration | 'forever' | undefined;
  /**
   * How many replicas must have the lease, and how long to wait for them. So a failover to one of them does not lose
   * the lease. If fewer replicas have it within `timeout`, the lease is given back and the call rejects with
   * `not-replicated`. This comes after the `wait`, and takes at most `timeout` and one `responseTimeout`. Releases and
   * renewals don't wait for replicas. 1 ms to 60 s. Default: don't wait for replicas.
   *
   * Each acquire opens a connection of its own for this, even if the lock is handed over inside this client. So it
   * needs an ioredis, node-redis or GLIDE client. A custom connection, a quorum and several names reject with
   * `unsupported`.
   */
  readonly waitForReplicas?: ReplicaOptions | undefined;
  /**
   * Mutexes and read-write locks: how long the client keeps the lease after its release, while no other client asks for
   * the lock. The next acquire in this process then gets the lock without a round trip, with the next fencing token. A
   * client that waits for the lock, or tries to get it, ends this at once. If your process crashes in that time, others
   * wait for the lock until its `ttl` is over, as if you held it. 1 ms to 60 s. Default: it gives the lease back at
   * once.
   *
   * Only on a connection that carries messages. The call rejects with `invalid-option` under `mixedFleet`, and with
   * `unsupported` without messages and in a quorum.
   */
  readonly linger?: Duration | undefined;
  /**
   * The lock stays taken for this long from its grant on, even if it is given back earlier or the work fails. At most
   * `maxHold`. `run`, a release and a closed manager leave the rest of that time to the server. If your process dies,
   * the lock is free when its `ttl` is over. A release before that time answers `detached`. 10 ms to 30 days. Default:
   * a release frees it at once.
   *
   * The call rejects with `unsupported` for reentrant locks and in a quorum.
   */
  readonly atLeast?: Duration | undefined;
  /**
   * How many callers may wait before this one. If that many wait already, and the lock is not free, the call fails with
   * `busy` at once. The error's `waiters` is that number. With 0, the call never waits. The number of this manager's
   * callers is exact. For other managers, it is as old as their last heartbeats. The manager that holds the lock sends
   * none, so others don't count its callers. 0 to 1,000,000. Default: any number may wait.
   *
   * The call rejects with `unsupported` for reentrant locks, under `mixedFleet`, in a quorum and for several names.
   */
  readonly maxWaiters?: number | undefined;
  /**
   * A name for the lease, for example the job that needs it. At most 128 bytes without control characters. `inspect`
   * shows it, for holders and for waiters. It costs nothing: it stays in this process, and an inspect asks for it. The
   * manager's `label` is for all its leases together. A quorum has no labels. Default: nothing.
   */
  readonly label?: string | undefined;
}

/**
 * The options of a {@link LockManager}. Those that a lock has are defaults for its locks. All clients of one fleet
 * should use the same values for the others.
 */
export interface LockManagerOptions extends Omit<LockOptions, 'waitForReplicas' | 'atLeast' | 'maxWaiters' | 'label'> {
  /**
   * Put before every name. JavaScript refuses a prefix that begins with `leasehold:` or has a brace without a whole
   * hash tag; Rust refuses the names. Default: empty.
   */
  readonly prefix?: string | undefined;
  /**
   * How many times a client hands a lock over locally while another client waits, for 1 s at most. Without this option:
   * 32 times, or as often as fits into 5 ms, whichever is more. Smaller is fairer between clients, larger is faster. 0
   * to 1023.
   */
  readonly localHandoffs?: number | undefined;
  /**
   * How long one command's answer may take. After that, the command counts as maybe applied. 10 ms to 60 s. Default
   * `'2s'`.
   */
  readonly responseTimeout?: Duration | undefined;
  /**
   * A worker thread renews the leases while the program blocks the event loop. `{ worker: new URL('./redis.js',
   * import.meta.url) }` names the module that makes the worker's client. `maxHold` bounds it. Default: a blocked event
   * loop can lose leases.
   *
   * Without `maxHold`, a process that hangs keeps its locks for as long as it lives, so set both. While the event loop
   * is blocked, `signal` can't abort. A process that is stopped as a whole, such as by a suspended machine, loses its
   * leases as without this option.
   *
   * A bundle needs the line `import 'leasehold/renew-in'`.
   *
   * Node, Bun and Deno. Other hosts, quorums and a server in memory fail with `unsupported`. If the worker fails, the
   * manager emits `worker`, and works as without the option.
   */
  readonly renewIn?: RenewInOptions | undefined;
  /**
   * How long the server keeps a grant for a waiter. A dead waiter can delay the others for this long. Clients send
   * heartbeats at a third of it. 100 ms to 60 s. Default `'3s'`.
   */
  readonly claimWindow?: Duration | undefined;
  /** Compete with clients of other libraries on equal terms: all clients poll. This is slower. Default `false`. */
  readonly mixedFleet?: boolean | undefined;
  /**
   * One address enforces the slots of a cluster, and refuses `CLUSTER`. With `true`, calls reject with `invalid-option`
   * if the server takes a call with keys of different slots. With `false`, the manager doesn't ask. Each way has its
   * own counters of fences, so all clients of a server must get the same result. Not for a quorum. Default: the manager
   * asks the server, together with its first command.
   */
  readonly clusterSlots?: boolean | undefined;
  /**
   * A name for this client. `inspect` and the `busy` errors of others show it. No control characters. With an empty
   * label, others see only the client's id. At most 128 bytes. The manager writes it to the server when it first waits,
   * and when it has held a lease for a second. A quorum has no labels. Default: `<host>/<process id>`, or the runtime's
   * name where it does not tell these.
   */
  readonly label?: string | undefined;
}

/** The options of {@link LockManager.quorum}. */
export interface QuorumOptions extends LockManagerOptions {
  /**
   * The same as `responseTimeout` for one of its servers. A slower server counts as down. The default suits a LAN.
   * `responseTimeout` applies only to the first question to each server. 10 ms to 60 s. Default `'100ms'`.
   */
  readonly nodeTimeout?: Duration | undefined;
}

/** The options of {@link LockManager.semaphore}. */
export interface SemaphoreOptions extends Omit<LockOptions, 'linger'> {
  /**
   * How many permits there are. All callers should use the same limit. The limit of the latest acquire counts. A lower
   * limit takes nothing from current holders. A request for more than the new limit is granted when everything else is
   * free. 1 to 1,000,000.
   */
  readonly limit: number;
  /**
   * Semaphore only: a rate. In each window of this length, at most `limit` permits are granted. A call that would be
   * one too many waits, first come, first served. The server's clock decides, and the time of the grant counts. A
   * permit counts for this time from its grant on, also if its holder releases the lease, ends or never learns of the
   * grant. 10 ms to 30 days. Default: a release gives the permits back.
   *
   * So the lease is detached from its grant on: `isHeld` is false, `release` answers `detached`, and `signal` never
   * aborts. You don't need to release it. Work may take longer than `per`, and `close` doesn't wait for it. `ttl`,
   * `renew` and `maxHold` don't count.
   *
   * While permits count, an acquire of the same name with another `per`, or without one, rejects with `wrong-kind`.
   * With `atLeast`, `waitForReplicas` and `adopt` it rejects with `unsupported`.
   */
  readonly per?: Duration | undefined;
  /** How many permits one acquire takes: 1 to `limit`. Default `1`. */
  readonly permits?: number | undefined;
}

/** The options of a {@link LockManager.once} with work. */
export interface OnceOptions extends Omit<LockOptions, 'renew' | 'waitForReplicas' | 'linger' | 'atLeast'> {
  /**
   * Once only: how long the server keeps the result. Work that runs again in that time gets the stored result. 1 s to
   * 366 days. Default `'24h'`.
   */
  readonly keep?: Duration | undefined;
}

/** The options of {@link LockManager.multi}. */
export interface MultiOptions extends Omit<LockOptions, 'waitForReplicas' | 'linger' | 'atLeast' | 'maxWaiters'> {
  /**
   * Refuse names that one script can't take. The call then rejects with `cross-slot`. Names in one slot are always
   * tried with one script. Default `false`.
   */
  readonly oneScript?: boolean | undefined;
}

/** The options of {@link LockManager.close}. */
export interface CloseOptions {
  /**
   * How long the holders have to give their leases back before the manager closes. New and waiting acquires fail with
   * `closed` at once. A second `close()` without `drain` ends the drain at once. 0 ms to 30 days. Default: the leases
   * are taken from their holders at once.
   */
  readonly drain?: Duration | undefined;
}
