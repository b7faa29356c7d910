// Holds a renewed lease and still ends. Only the user's connection could keep the process alive.
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL);
await new LockManager(redis).mutex('idle').acquire();
console.log('held');
redis.stream?.unref();
