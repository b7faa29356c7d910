// Readers share the lock, a writer holds it alone, and a writer can become a reader without letting another writer in.
//
// It prints:
//   a reader while the writer holds the lock: null
//   two readers: shared and shared
//   an upgrade while another reader holds the lock: conflict
//   an upgrade of the only reader: exclusive
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const page = locks.readWrite('example:page');

const writer = await page.write().acquire();
console.log('a reader while the writer holds the lock:', await page.read().tryAcquire());

await writer.downgrade();
const reader = await page.read().acquire();
console.log(`two readers: ${writer.mode} and ${reader.mode}`);

// An upgrade never waits, because two upgrades would wait for each other.
await writer.upgrade().catch((error) => console.log('an upgrade while another reader holds the lock:', error.code));
await reader.release();
await writer.upgrade();
console.log('an upgrade of the only reader:', writer.mode);

await writer.release();
await locks.close();
redis.disconnect();
