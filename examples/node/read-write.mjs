// Readers share, a writer is alone, and a writer can become a reader without letting another writer in.
//
// It prints:
//   writing alone; a reader now: null
//   reading beside each other: shared and shared
//   no upgrade beside another reader: conflict
//   the sole reader writes again: exclusive
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const page = locks.readWrite('example:page');

const writer = await page.write().acquire();
console.log('writing alone; a reader now:', await page.read().tryAcquire());

await writer.downgrade();
const reader = await page.read().acquire();
console.log(`reading beside each other: ${writer.mode} and ${reader.mode}`);

// An upgrade never waits: two readers that waited to upgrade would wait for each other.
await writer.upgrade().catch((error) => console.log('no upgrade beside another reader:', error.code));
await reader.release();
await writer.upgrade();
console.log('the sole reader writes again:', writer.mode);

await writer.release();
await locks.close();
redis.disconnect();
