// The tour on a server that refuses scripts. Then it holds a renewed lease and still ends by itself.
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { withoutScripts } from 'leasehold/without-scripts';
import { createClient } from 'redis';
import tour from './tour.js';

const redis = new Redis(process.env.REDIS_URL);
await tour(withoutScripts(redis), LockManager, () => redis.flushall());
const client = await createClient({ url: process.env.REDIS_URL }).connect();
await tour(withoutScripts(client), LockManager, () => client.flushAll());
client.destroy();
const refused = await new LockManager(redis).mutex('idle').tryAcquire().catch((error) => error.code);
await new LockManager(withoutScripts(redis)).mutex('idle').acquire();
console.log(`held without scripts, and ${refused} with them`);
redis.stream?.unref();
