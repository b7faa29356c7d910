const { Redis } = require('ioredis');
const { LockManager } = require('leasehold');

(async () => {
  const { default: tour } = await import('./tour.js');
  const redis = new Redis(process.env.REDIS_URL);
  await tour(redis, LockManager);
  redis.disconnect();
})();
