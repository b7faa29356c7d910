const { Redis } = require('ioredis');
const { LockManager } = require('leasehold');

(async () => {
  const { default: blocked } = await import('./blocked.js');
  await blocked(new Redis(process.env.REDIS_URL), LockManager, require.resolve('./blocked-redis.cjs'));
})();
