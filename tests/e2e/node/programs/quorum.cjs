const { Redis } = require('ioredis');
const { LockManager } = require('leasehold');

(async () => {
  const loaded = () => Object.keys(require.cache).some((path) => /[\\/]dist[\\/]quorum\.cjs$/.test(path));
  const before = loaded();
  const { default: quorum } = await import('./quorum.js');
  const clients = process.env.REDIS_URLS.split(',').map((url) => new Redis(url));
  await quorum(clients, LockManager);
  for (const client of clients) client.disconnect();
  console.log(`loaded before the first quorum: ${before}, after: ${loaded()}`);
})();
