// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

/** How many replicas must have a lease, and how long to wait for them, in milliseconds. */
export interface ReplicaSettings {
  readonly min: number;
  readonly timeout: number;
}

/** The options of a lock, once they are read. Durations are in milliseconds. A `wait` of `Infinity` waits forever. */
export interface LockSettings {
  readonly ttl: number;
  readonly renew: boolean;
  readonly maxHold?: number | undefined;
  readonly wait: number | undefined;
  readonly linger?: number | undefined;
  readonly atLeast?: number | undefined;
  readonly maxWaiters?: number | undefined;
  readonly label?: string | undefined;
  /** How many replicas must have the lease before the caller gets it. */
  readonly replicas?: ReplicaSettings | undefined;
  /** How long a call that does not wait may take, if this is shorter than the response timeout. */
  readonly within?: number | undefined;
}

/** The settings of a call that doesn't wait for the lock: its `wait` limits how long the server may take. Not a spread, which is slow. */
export function withoutWait({ ttl, renew, maxHold, wait, linger, atLeast, maxWaiters, label, replicas }: LockSettings): LockSettings {
  return { ttl, renew, maxHold, wait: undefined, linger, atLeast, maxWaiters, label, replicas, within: wait === Infinity ? undefined : wait };
}

/** The defaults of a lock. Durations are in milliseconds. */
export const LOCK_DEFAULTS: LockSettings = {
  ttl: 30_000,
  renew: true,
  maxHold: undefined,
  wait: 60_000,
  linger: undefined,
  atLeast: undefined,
  maxWaiters: undefined,
  label: undefined,
};

/** The defaults of a once. Durations are in milliseconds. */
export const ONCE_DEFAULTS = {
  keep: 86_400_000,
};

/** The defaults of a manager. Durations are in milliseconds. */
export const MANAGER_DEFAULTS = {
  prefix: '',
  localHandoffs: undefined as number | undefined,
  responseTimeout: 2_000,
  nodeTimeout: 100,
  claimWindow: 3_000,
  mixedFleet: false,
};

/** The options of a lock that the engine gets. */
export const FOR_ENGINE = ['ttl', 'renew', 'maxHold', 'wait', 'linger', 'atLeast', 'maxWaiters'] as const;

/** The bounds: the least value, the greatest, and both in words. Durations are in milliseconds. */
export const BOUNDS = {
  ttl: [10, 2_592_000_000, '10 ms to 30 days'],
  maxHold: [10, 2_592_000_000, '10 ms to 30 days'],
  wait: [1, 2_592_000_000, '1 ms to 30 days'],
  waitForReplicas: [1, 60_000, '1 ms to 60 s'],
  linger: [1, 60_000, '1 ms to 60 s'],
  atLeast: [10, 2_592_000_000, '10 ms to 30 days'],
  maxWaiters: [0, 1_000_000, '0 to 1,000,000'],
  limit: [1, 1_000_000, '1 to 1,000,000'],
  per: [10, 2_592_000_000, '10 ms to 30 days'],
  keep: [1_000, 31_622_400_000, '1 s to 366 days'],
  localHandoffs: [0, 1_023, '0 to 1023'],
  responseTimeout: [10, 60_000, '10 ms to 60 s'],
  nodeTimeout: [10, 60_000, '10 ms to 60 s'],
  claimWindow: [100, 60_000, '100 ms to 60 s'],
  drain: [0, 2_592_000_000, '0 ms to 30 days'],
} as const;

/** The options that are numbers, and no durations. */
export const COUNTS: readonly string[] = ['maxWaiters', 'limit', 'localHandoffs'];

// The options that each place takes, in the order in which messages list them.
export const LOCK = ['ttl', 'renew', 'maxHold', 'wait', 'waitForReplicas', 'linger', 'atLeast', 'maxWaiters', 'label'] as const;
export const MANAGER = ['ttl', 'renew', 'maxHold', 'wait', 'linger', 'prefix', 'localHandoffs', 'responseTimeout', 'renewIn', 'claimWindow', 'mixedFleet', 'clusterSlots', 'label'] as const;
export const QUORUM = [...MANAGER, 'nodeTimeout'] as const;
export const CLOSE = ['drain'] as const;
export const SEMAPHORE = ['limit', 'per', 'permits', 'ttl', 'renew', 'maxHold', 'wait', 'waitForReplicas', 'atLeast', 'maxWaiters', 'label'] as const;
export const ONCE = ['keep', 'ttl', 'maxHold', 'wait', 'maxWaiters', 'label'] as const;
export const MULTI = ['oneScript', 'ttl', 'renew', 'maxHold', 'wait', 'label'] as const;

/** What all clients' labels keep to: numbers, and times in milliseconds. `core/src/labels.rs` explains them. */
export const LABEL_RULES = {
  lasts: 86_400_000,
  again: 28_800_000,
  retry: 1_000,
  held: 1_000,
  askAgain: 5_000,
  remembered: 64,
  mostAsked: 256,
  mostBytes: 128,
  leasesAsked: 64,
  patience: 100,
  mostAnswered: 100,
  mostSeen: 10_000,
} as const;
