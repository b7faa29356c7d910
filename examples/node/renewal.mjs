// The watchdog: a lease that is renewed while the work lasts, but not for ever.
//
// An article's "renew it four times, each time by its TTL" is a `maxHold` of four TTLs here: the renewals stop then, and the
// holder is told. What is lost sooner, because the server is gone, is told before the TTL is over.
//
// It prints:
//   after three TTLs: held here true, on the server true
//   after four: max-hold, aborted true
//   somebody else gets it: true
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const ttl = 500; // the default is 30 s; it is renewed at a third of it

const lease = await locks.mutex('example:slow-report', { ttl, maxHold: 4 * ttl }).acquire();
await sleep(3 * ttl);
console.log(`after three TTLs: held here ${lease.isHeld}, on the server ${await lease.verify()}`);

const reason = await lease.lost;
console.log(`after four: ${reason}, aborted ${lease.signal.aborted}`);
const other = new LockManager(redis);
console.log('somebody else gets it:', (await other.mutex('example:slow-report').acquire()).isHeld);

await other.close();
await locks.close();
redis.disconnect();
