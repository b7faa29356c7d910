import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import tour from './tour.js';

const redis = new Redis(process.env.REDIS_URL);
await tour(redis, LockManager);
redis.disconnect();
