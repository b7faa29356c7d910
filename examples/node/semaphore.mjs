// Three permits for a service that handles three requests at a time, no matter how many processes call it.
//
// It prints:
//   10 requests, 3 at a time
//   another permit while three are taken: false
//   two permits after they were released: true
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const service = locks.semaphore('example:service', { limit: 3 }); // all callers use the same limit

let [now, most] = [0, 0];
async function request() {
  most = Math.max(most, ++now);
  await new Promise((resolve) => setTimeout(resolve, 20));
  now -= 1;
}
await Promise.all(Array.from({ length: 10 }, () => service.run(request)));
console.log(`10 requests, ${most} at a time`);

// A big job takes two permits as one lease. A release gives back what its own lease took, never more.
const pair = locks.semaphore('example:service', { limit: 3, permits: 2 });
const [big, small] = [await pair.acquire(), await service.acquire()];
console.log('another permit while three are taken:', await service.tryAcquire() !== null);
await big.release();
console.log('two permits after they were released:', await pair.tryAcquire() !== null);

await small.release();
await locks.close();
redis.disconnect();
