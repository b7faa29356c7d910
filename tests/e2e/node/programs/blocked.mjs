import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import blocked from './blocked.js';

await blocked(new Redis(process.env.REDIS_URL), LockManager, new URL('./blocked-redis.mjs', import.meta.url));
