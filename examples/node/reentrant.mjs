// An owner takes its own lock again, at once. All others wait until it has released the lock as many times.
//
// On the server it is Redisson's `RLock`: a Java service that calls `getLock("example:account:7")` uses the same lock.
//
// It prints:
//   paying, 1 hold
//   booking, 2 holds
//   another owner gets it: false
//   booked: still-held
//   paid: released
import { Redis } from 'ioredis';
import { LockManager, Owner } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const ACCOUNT = 'example:account:7';

// Make one owner for each piece of work, such as a request, and pass it along. In Java, the thread is the owner.
await pay(new Owner());
await locks.close();
redis.disconnect();

async function pay(owner) {
  const lease = await locks.reentrant(ACCOUNT, owner).acquire();
  console.log(`paying, ${lease.holdCount} hold`);
  await book(owner);
  console.log('paid:', await lease.release());
}

/** Takes the lock itself, because it is also called without the lock. */
async function book(owner) {
  const lease = await locks.reentrant(ACCOUNT, owner).acquire();
  console.log(`booking, ${lease.holdCount} holds`);
  const another = await locks.reentrant(ACCOUNT, new Owner()).tryAcquire();
  console.log('another owner gets it:', another !== null);
  console.log('booked:', await lease.release());
}
