// Three permits for a service that bears three requests at once, whatever the number of processes that call it.
//
// It prints:
//   10 requests, 3 at once
//   two and one are taken; another one now: false
//   two are free again: true
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const service = locks.semaphore('example:service', { limit: 3 }); // everybody says the same limit

let [now, most] = [0, 0];
async function request() {
  most = Math.max(most, ++now);
  await new Promise((resolve) => setTimeout(resolve, 20));
  now -= 1;
}
await Promise.all(Array.from({ length: 10 }, () => service.run(request)));
console.log(`10 requests, ${most} at once`);

// A big job takes two of them as one lease. A release gives back what its own lease took, never more.
const pair = locks.semaphore('example:service', { limit: 3, permits: 2 });
const [big, small] = [await pair.acquire(), await service.acquire()];
console.log('two and one are taken; another one now:', await service.tryAcquire() !== null);
await big.release();
console.log('two are free again:', await pair.tryAcquire() !== null);

await small.release();
await locks.close();
redis.disconnect();
