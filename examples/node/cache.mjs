// Rebuilds a cached value only once: the first request that misses it builds it, and the others wait for the result.
//
// It prints:
//   100 requests, 1 builds, 1234 orders
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);

/** Returns the value of `key`, from the cache or newly built. */
export async function cached(key, seconds, build) {
  const found = await redis.get(key);
  if (found !== null) return JSON.parse(found);

  return locks.mutex(`build:${key}`).run(async (lease) => {
    // Another request has probably built it while we waited.
    const built = await redis.get(key);
    if (built !== null) return JSON.parse(built);

    const value = await build(lease.signal);
    await redis.set(key, JSON.stringify(value), 'EX', seconds);
    return value;
  });
}

let builds = 0;
async function buildReport(signal) {
  builds += 1;
  await new Promise((resolve) => setTimeout(resolve, 200)); // a slow query
  signal.throwIfAborted();
  return { orders: 1234 };
}

const key = `report:${process.argv[2] ?? 'today'}`;
const reports = await Promise.all(Array.from({ length: 100 }, () => cached(key, 60, buildReport)));
console.log(`${reports.length} requests, ${builds} builds, ${reports[0].orders} orders`);
await locks.close();
redis.disconnect();
