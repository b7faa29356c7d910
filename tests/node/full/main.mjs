// What is bundled: no top-level await, so that it may become CommonJS.
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import tour from '../programs/tour.js';

const redis = new Redis(process.env.REDIS_URL);
tour(redis, LockManager).finally(() => redis.disconnect());
