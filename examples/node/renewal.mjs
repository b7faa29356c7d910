// A watchdog: the lease is renewed while the work lasts, but not forever.
//
// Some articles renew a lock a fixed number of times. Here, a `maxHold` of three TTLs does that: then the renewals stop, and the
// holder is notified. If the lease is lost earlier, because the server is down, the holder is notified before the lease expires.
//
// It prints:
//   after two TTLs: held by the local clock true, on the server true
//   after three TTLs: max-hold, signal aborted true
//   another client gets the lock: true
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const ttl = 3000; // the default is 30 s; it is renewed at a third of it

const lease = await locks.mutex('example:slow-report', { ttl, maxHold: 3 * ttl }).acquire();
await sleep(2 * ttl);
console.log(`after two TTLs: held by the local clock ${lease.isHeld}, on the server ${await lease.verify()}`);

const reason = await lease.lost;
console.log(`after three TTLs: ${reason}, signal aborted ${lease.signal.aborted}`);
const other = new LockManager(redis);
console.log('another client gets the lock:', (await other.mutex('example:slow-report').acquire()).isHeld);

await other.close();
await locks.close();
redis.disconnect();
