// What happens to a call that is repeated, late, or made after another client took the lock. None of them can harm another holder.
//
// It prints:
//   tryAcquire while I hold the lock: null
//   acquire while I hold the lock: busy
//   two holds, released one by one: still-held, then released
//   released again: released
//   released after the lease expired: already-expired
//   released after another client took the lock: not-owner
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const door = locks.mutex('example:front-door');

// A mutex is not reentrant: the second caller waits, even if it is the holder. (A `reentrant` lock is.)
const lease = await door.acquire();
console.log('tryAcquire while I hold the lock:', await door.tryAcquire());
await door.acquire({ wait: 100 }).catch((error) => console.log('acquire while I hold the lock:', error.code));

const nested = lease.nested();
console.log(`two holds, released one by one: ${await nested.release()}, then ${await lease.release()}`);
console.log('released again:', await lease.release()); // the same answer as the first time; nothing is sent

const late = await door.acquire({ ttl: 50, renew: false });
await late.lost;
console.log('released after the lease expired:', await late.release());

// Something else overwrites the key, which leasehold never does. The release leaves that key alone.
const robbed = await door.acquire();
await redis.set('example:front-door', "another's", 'PX', 60_000);
console.log('released after another client took the lock:', await robbed.release());

await locks.close();
redis.disconnect();
