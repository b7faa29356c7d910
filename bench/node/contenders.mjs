import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { Mutex as DropInMutex } from 'leasehold/redis-semaphore';
import DropInRedlock from 'leasehold/redlock';
import DropInRedlock4 from 'leasehold/redlock4';
import { createClient } from 'redis';
import { Mutex } from 'redis-semaphore';
import RedlockModule from 'redlock';
import Redlock4 from 'redlock-4';
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

export const REDLOCK = redlockOf('node-redlock', Redlock);
export const REDLOCK4 = redlock4Of('node-redlock 4', Redlock4);
export const SEMAPHORE = semaphoreOf('redis-semaphore', Mutex);
/** The same programs, with our drop-ins. */
export const DROP_INS = [
  redlockOf('leasehold/redlock', DropInRedlock),
  semaphoreOf('leasehold/redis-semaphore', DropInMutex),
  redlock4Of('leasehold/redlock4', DropInRedlock4),
];

function redlockOf(name, Redlock) {
  const lock = (redis, name) => {
    const redlock = new Redlock([redis], { retryCount: -1 });
    return async () => {
      const lock = await redlock.acquire([name], TTL);
      return () => lock.release();
    };
  };
  return { name, lock };
}

function redlock4Of(name, Redlock) {
  const lock = (redis, name) => {
    const redlock = new Redlock([redis], { retryCount: -1 });
    return async () => {
      const lock = await redlock.lock(name, TTL);
      return () => lock.unlock();
    };
  };
  return { name, lock };
}

function semaphoreOf(name, Mutex) {
  const lock = (redis, name) => async () => {
    const mutex = new Mutex(redis, name, { lockTimeout: TTL, acquireTimeout: FOREVER });
    await mutex.acquire();
    return () => mutex.release();
  };
  return { name, lock };
}

/** Takes and releases the lock by `run`. */
export const RUN = {
  name: 'leasehold run',
  cycle(redis, name) {
    const lock = managerOf(redis).mutex(name, { ttl: TTL });
    return () => lock.run(() => {});
  },
};

const DELETE_IF_EQUAL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
let sets = 0;

/** The least that a lock needs: a `SET`, and a script that deletes the key if it still has the token. */
export const SET = {
  name: 'bare SET',
  lock(redis, name) {
    redis.deleteIfEqual ?? redis.defineCommand('deleteIfEqual', { numberOfKeys: 1, lua: DELETE_IF_EQUAL });
    return async () => {
      const token = `01234567-89ab-cdef-0123-456789abcdef:${++sets}`;
      if ((await redis.set(name, token, 'PX', TTL, 'NX')) !== 'OK') throw new Error(`${name} is not free`);
      return () => redis.deleteIfEqual(name, token);
    };
  },
};

/** The same two over node-redis. They get a client of that library. */
export const NODE_REDIS = [
  { ...LEASEHOLD, name: 'leasehold, node-redis', library: 'node-redis' },
  {
    name: 'bare SET, node-redis',
    library: 'node-redis',
    lock(redis, name) {
      return async () => {
        const token = `01234567-89ab-cdef-0123-456789abcdef:${++sets}`;
        if ((await redis.set(name, token, { PX: TTL, NX: true })) !== 'OK') throw new Error(`${name} is not free`);
        return () => redis.eval(DELETE_IF_EQUAL, { keys: [name], arguments: [token] });
      };
    },
  },
];

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

/** Opens a connection with node-redis. */
export async function connectNodeRedis() {
  return createClient({ url: process.env.REDIS_URL }).connect();
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
