// Checks a lease, shows who holds a lock, and takes it away as an operator.
//
// It prints:
//   held by the local clock: true, on the server: true
//   the server has 1 holder and 0 waiters
//   taken from 1 holder
//   held on the server: false, by the local clock: false
//   the next holder's fence is greater: true
//   my late release: already-expired
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const [worker, operator] = [new LockManager(redis), new LockManager(redis)];
const name = 'example:import';

const lease = await worker.mutex(name).acquire();
// `isHeld` does no I/O. `verify` costs a round trip, and its answer can be out of date when it arrives.
console.log(`held by the local clock: ${lease.isHeld}, on the server: ${await lease.verify()}`);

const { holders, waiters } = await operator.inspect(name);
console.log(`the server has ${holders.length} holder and ${waiters.length} waiters`);

// The holder finds out by a message if it listens, at its next renewal, or when it calls `verify`. Until then, only a fence stops
// its writes.
console.log(`taken from ${await operator.forceRelease(name)} holder`);
console.log(`held on the server: ${await lease.verify()}, by the local clock: ${lease.isHeld}`);

const next = await operator.mutex(name).acquire();
console.log("the next holder's fence is greater:", next.fence > lease.fence);
console.log('my late release:', await lease.release());

await next.release();
await worker.close();
await operator.close();
redis.disconnect();
