// The program that is bundled. It has no top-level await, so that it can become CommonJS.
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import 'leasehold/quorum';
import quorum from '../programs/quorum.js';
import tour from '../programs/tour.js';

const redis = new Redis(process.env.REDIS_URL);
const others = process.env.REDIS_URLS.split(',').map((url) => new Redis(url));
tour(redis, LockManager).then(() => quorum(others, LockManager)).finally(() => [redis, ...others].forEach((client) => client.disconnect()));
