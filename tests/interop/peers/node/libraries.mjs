import { Mutex, TimeoutError } from 'redis-semaphore';
import RedlockModule from 'redlock';

const Redlock = RedlockModule.default ?? RedlockModule;
/** Nobody gives up. */
const FOREVER = 2 ** 31 - 1;

/** Each gives the way to one lock as one task uses it: `try()`, `acquire()`, and `release()`, which tells whether it was still held. */
export const libraries = {
  redlock(redis, name, ttl) {
    const redlock = new Redlock([redis], { retryCount: -1 });
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

  /** Its key is `mutex:` and the name; it renews itself. */
  'redis-semaphore'(redis, name, ttl, poll) {
    const options = { lockTimeout: ttl, acquireTimeout: FOREVER, ...(poll && { retryInterval: poll }) };
    const mutex = new Mutex(redis, name, { ...options, onLockLost() {} });
    let once;
    return {
      acquire: () => mutex.acquire(),
      async try() {
        once = new Mutex(redis, name, { ...options, acquireAttemptsLimit: 1, identifier: mutex.identifier });
        return once.tryAcquire();
      },
      async release() {
        const held = mutex.isAcquired || Boolean(once?.isAcquired);
        await mutex.release();
        await once?.release();
        return held;
      },
    };
  },
};

/** Whether each server only said that another one holds the lock. */
async function isBusy(error) {
  if (error instanceof TimeoutError) return true;
  for (const attempt of error.attempts ?? []) {
    const { votesAgainst } = await attempt;
    if ([...votesAgainst.values()].some((reason) => reason.name !== 'ResourceLockedError')) return false;
  }
  return error.name === 'ExecutionError';
}
