// Holds a renewed lease, and ends all the same: only the connection would keep it, and that one is the user's.
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL);
await new LockManager(redis).mutex('idle').acquire();
console.log('held');
redis.stream?.unref();
