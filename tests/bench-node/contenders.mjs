import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { Mutex } from 'redis-semaphore';
import RedlockModule from 'redlock';
import { IoredisAdapter, createLock } from 'redlock-universal';

const Redlock = RedlockModule.default ?? RedlockModule;
const TTL = 30_000;
/** Nobody gives up: a contender that does would look faster than it is. */
const FOREVER = 2 ** 31 - 1;

/**
 * Who is measured: a name, and `lock(redis, name)`, which gives the way to one lock: `acquire()` to a function that releases.
 * Everybody shares one connection of ioredis, and keeps its own ways of waiting.
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

/** The very commands that leasehold sends, sent by hand: what the network and the server cost alone. */
export const RAW = {
  name: 'raw ioredis',
  lock(redis, name) {
    let count = 0;
    const [acquire, release] = recorded.map((command) => command.map((word) => word.replaceAll(recordedName, name)));
    const [inAcquire, inRelease] = [acquire, release].map((command) => command.indexOf(recordedToken));
    return async () => {
      const token = `01234567-89ab-cdef-0123-456789abcdef:${++count}`;
      await redis.call(...acquire.with(inAcquire, token));
      return () => redis.call(...release.with(inRelease, token));
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

/** A connection; `RAW` is ready on it. */
export async function connect() {
  const redis = new Redis(process.env.REDIS_URL);
  const sent = [];
  const locks = new LockManager({
    call(args) {
      sent.push(args);
      return redis.call(...args);
    },
  });
  // Twice: the first time the scripts are sent whole.
  for (let i = 0; i < 2; i++) await (await locks.mutex(recordedName).acquire({ ttl: TTL })).release();
  await locks.close();
  recorded = sent.filter(([command]) => command === 'EVALSHA').slice(-2);
  recordedToken = recorded[0].find((word) => /^[-0-9a-f]{36}:\d+$/.test(word));
  return redis;
}

/** Ends a connection and what stands on it. */
export async function disconnect(redis) {
  await managers.get(redis)?.close();
  redis.disconnect();
}

function managerOf(redis) {
  if (!managers.has(redis)) managers.set(redis, new LockManager(redis));
  return managers.get(redis);
}
