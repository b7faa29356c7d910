// Prints the milliseconds from the import of the client library to its first answer, and from the import of the package to the first
// lock.
const start = performance.now();
const { Redis } = await import('ioredis');
const redis = new Redis(process.env.REDIS_URL);
await redis.ping();
// Collect the garbage from loading the client library now, so that it doesn't count.
globalThis.gc();
const answered = performance.now();
const { LockManager } = await import('leasehold');
const lease = await new LockManager(redis).mutex('first').acquire();
const locked = performance.now();
console.log(JSON.stringify({ client: answered - start, lock: locked - answered }));
await lease.release();
redis.disconnect();
