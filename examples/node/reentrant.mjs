// An owner takes its own lock again, at once; everybody else waits until it has given it back as often.
//
// On the server it is Redisson's `RLock`: a Java service that says `getLock("example:account:7")` stands before the same lock.
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

// One for each piece of work, such as a request: it goes along where Java would look at the thread.
await pay(new Owner());
await locks.close();
redis.disconnect();

async function pay(owner) {
  const lease = await locks.reentrant(ACCOUNT, owner).acquire();
  console.log(`paying, ${lease.holdCount} hold`);
  await book(owner);
  console.log('paid:', await lease.release());
}

/** Takes the lock itself, since others call it too. */
async function book(owner) {
  const lease = await locks.reentrant(ACCOUNT, owner).acquire();
  console.log(`booking, ${lease.holdCount} holds`);
  const another = await locks.reentrant(ACCOUNT, new Owner()).tryAcquire();
  console.log('another owner gets it:', another !== null);
  console.log('booked:', await lease.release());
}
