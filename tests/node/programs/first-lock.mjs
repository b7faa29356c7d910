// Prints the milliseconds from the import of the package to the first lock, with a connection that is open already.
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL);
await redis.ping();
const start = performance.now();
const { LockManager } = await import('leasehold');
const lease = await new LockManager(redis).mutex('first').acquire();
console.log(performance.now() - start);
await lease.release();
redis.disconnect();
