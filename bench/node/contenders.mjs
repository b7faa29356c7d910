import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { Mutex } from 'redis-semaphore';
import RedlockModule from 'redlock';
import { IoredisAdapter, createLock } from 'redlock-universal';

const Redlock = RedlockModule.default ?? RedlockModule;
const TTL = 30_000;
/** No contender may give up waiting: it would look faster than it is. */
const FOREVER = 2 ** 31 - 1;

/**
 * A contender has a name and `lock(redis, name)`. That returns a function that acquires the lock and resolves to a function that
 * releases it. All contenders use one ioredis connection, and wait in their own way.
 */
export const LEASEHOLD = {
  name: 'leasehold',
  lock(redis, name) {
    const lock = managerOf(redis).mutex(name);
    return async () => {
      const lease = await lock.acquire({ ttl: TTL, wait: 'forever' });
      return () => lease.release();
    };
  },
};

/** Sends the same commands as leasehold by hand, to measure the cost of the network and the server alone. */
export const RAW = {
  name: 'raw ioredis',
  lock(redis, name) {
    let count = 0;
    const [acquire, release] = recorded.map((command) => command.map((word) => word.replaceAll(recordedName, name)));
    return async () => {
      const token = `01234567-89ab-cdef-0123-456789abcdef:${++count}`;
      const fence = await redis.call(...acquire.map((word) => word.replace(recordedToken, token)));
      // The lock's key holds the token and the fence.
      const value = `${token} ${Array.isArray(fence) ? fence[1] : fence}`;
      return () => redis.call(...release.map((word) => (word.startsWith(recordedToken) ? value : word)));
    };
  },
};

export const REDLOCK = {
  name: 'node-redlock',
  lock(redis, name) {
    const redlock = new Redlock([redis], { retryCount: -1 });
    return async () => {
      const lock = await redlock.acquire([name], TTL);
      return () => lock.release();
    };
  },
};

export const SEMAPHORE = {
  name: 'redis-semaphore',
  lock(redis, name) {
    return async () => {
      const mutex = new Mutex(redis, name, { lockTimeout: TTL, acquireTimeout: FOREVER });
      await mutex.acquire();
      return () => mutex.release();
    };
  },
};

export const UNIVERSAL = {
  name: 'redlock-universal',
  lock(redis, name) {
    const lock = createLock({ adapter: new IoredisAdapter(redis), key: name, ttl: TTL, retryAttempts: FOREVER });
    return async () => {
      const handle = await lock.acquire();
      return () => lock.release(handle);
    };
  },
};

export const PEERS = [REDLOCK, SEMAPHORE, UNIVERSAL];

const managers = new WeakMap();
const recordedName = 'recorded-name';
let recorded = [];
let recordedToken = '';

/** Opens a connection and records the commands for `RAW` on it. */
export async function connect() {
  const redis = new Redis(process.env.REDIS_URL);
  const sent = [];
  const locks = new LockManager({
    call(args) {
      sent.push(args);
      return redis.call(...args);
    },
  });
  // Twice, because the first time the scripts are sent in full.
  for (let i = 0; i < 2; i++) await (await locks.mutex(recordedName).acquire({ ttl: TTL })).release();
  await locks.close();
  recorded = sent.filter(([command]) => command === 'EVALSHA').slice(-2);
  recordedToken = recorded[0].find((word) => /^[-0-9a-f]{36}:\d+$/.test(word));
  return redis;
}

/** Closes a connection and its lock manager. */
export async function disconnect(redis) {
  await managers.get(redis)?.close();
  redis.disconnect();
}

function managerOf(redis) {
  if (!managers.has(redis)) managers.set(redis, new LockManager(redis));
  return managers.get(redis);
}
