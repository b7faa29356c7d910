import { RateLimiterQueue, RateLimiterRedis } from 'rate-limiter-flexible';
import { Mutex, Semaphore } from 'redis-semaphore';
import RedlockModule from 'redlock';

const Redlock = RedlockModule.default ?? RedlockModule;
// Only `cargo xtask bench --limits` installs it.
const leasehold = process.argv[2]?.startsWith('leasehold') ? await import('leasehold') : undefined;
const PERMITS = 5;
/** The limit of a rate, in each TTL. */
const RATE = 1000;
/** No library gives up. */
const FOREVER = 2 ** 31 - 1;

/** Each returns a lock for one task: `try()`, `acquire()`, and `release()`, which returns whether it was still held. */
export const libraries = {
  redlock(servers, name, ttl) {
    const redlock = new Redlock(servers, { retryCount: -1 });
    let lock;
    return {
      async acquire() {
        lock = await redlock.acquire([name], ttl);
      },
      async try() {
        try {
          lock = await redlock.acquire([name], ttl, { retryCount: 0 });
          return true;
        } catch (error) {
          if (await isBusy(error)) return false;
          throw error;
        }
      },
      async release() {
        try {
          await redlock.release(lock, { retryCount: 0 });
          return true;
        } catch (error) {
          if (await isBusy(error)) return false;
          throw error;
        }
      },
    };
  },

  /** Its key is `mutex:` plus the name. It renews itself. */
  'redis-semaphore': ([redis], name, ttl, poll) =>
    retaken((more) => new Mutex(redis, name, { lockTimeout: ttl, acquireTimeout: FOREVER, ...(poll && { retryInterval: poll }), ...more })),

  'redis-semaphore-permits': ([redis], name, ttl) =>
    retaken((more) => new Semaphore(redis, name, PERMITS, { lockTimeout: ttl, acquireTimeout: FOREVER, ...more })),

  /** The tasks of a process share a queue for each name. */
  'rate-limiter-flexible'([redis], name, ttl) {
    const queue = kept(name, () => {
      return new RateLimiterQueue(new RateLimiterRedis({ storeClient: redis, keyPrefix: name, points: RATE, duration: ttl / 1000 }));
    });
    return started(() => queue.removeTokens(1));
  },

  'leasehold-npm-rate'([redis], name, ttl) {
    const rate = kept('', () => new leasehold.LockManager(redis)).semaphore(name, { limit: RATE, per: ttl, wait: 'forever' });
    return started(() => rate.acquire());
  },
};

const all = new Map();

/** What this process has only once. */
function kept(name, make) {
  if (!all.has(name)) all.set(name, make());
  return all.get(name);
}

/** A rate: no release gives a permit back. */
function started(acquire) {
  return { acquire, async release() {} };
}

/** One lock of redis-semaphore. A try needs a separate lock object, because its options are fixed when it is made. */
function retaken(make) {
  const waiting = make({ onLockLost() {} });
  let held = waiting;
  return {
    async acquire() {
      held = waiting;
      await held.acquire();
    },
    try() {
      const attempt = make({ acquireAttemptsLimit: 1, onLockLost() {} });
      return attempt.tryAcquire().then((got) => {
        if (got) held = attempt;
        return got;
      });
    },
    async release() {
      const had = held.isAcquired;
      await held.release();
      return had;
    },
  };
}

/** Whether every server only said that another client holds the lock. */
async function isBusy(error) {
  for (const attempt of error.attempts ?? []) {
    const { votesAgainst } = await attempt;
    if ([...votesAgainst.values()].some((reason) => reason.name !== 'ResourceLockedError')) return false;
  }
  return error.name === 'ExecutionError';
}
