// What becomes of calls that come too often, too late, or from the wrong one. None of them can harm another holder.
//
// It prints:
//   I hold it already: a try gets null
//   I hold it already: `wait` ends with busy
//   I want to hold it twice: still-held, then released
//   I release it once more: released
//   my time was over: already-expired
//   somebody else has it by now: not-owner
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const door = locks.mutex('example:front-door');

// A mutex is not reentrant: it does not know that the second caller is the first one. (`reentrant` does.)
const lease = await door.acquire();
console.log('I hold it already: a try gets', await door.tryAcquire());
await door.acquire({ wait: 100 }).catch((error) => console.log('I hold it already: `wait` ends with', error.code));

const nested = lease.nested();
console.log(`I want to hold it twice: ${await nested.release()}, then ${await lease.release()}`);
console.log('I release it once more:', await lease.release()); // the answer of the first time; nothing is sent

const late = await door.acquire({ ttl: 50, renew: false });
await late.lost;
console.log('my time was over:', await late.release());

// Another client overwrites the key, which no client of ours does. It is left to it.
const robbed = await door.acquire();
await redis.set('example:front-door', "another's", 'PX', 500);
console.log('somebody else has it by now:', await robbed.release());

await locks.close();
redis.disconnect();
