// Is it still mine, who has it, and an operator who takes it away.
//
// It prints:
//   by my clock true, by the server's word true
//   on the server: 1 holder, 0 waiters
//   taken from 1 holder
//   by the server's word false, and from now on by my clock false
//   the next holder's fence is greater: true
//   my late release: already-expired
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const [worker, operator] = [new LockManager(redis), new LockManager(redis)];
const name = 'example:import';

const lease = await worker.mutex(name).acquire();
// The first asks nobody. The second costs a round trip, and is as true as the moment it was answered in.
console.log(`by my clock ${lease.isHeld}, by the server's word ${await lease.verify()}`);

const { holders, waiters } = await operator.inspect(name);
console.log(`on the server: ${holders.length} holder, ${waiters.length} waiters`);

// The holder is told by message if it listens, at its next renewal, or when it asks; its late writes only the fence stops.
console.log(`taken from ${await operator.forceRelease(name)} holder`);
console.log(`by the server's word ${await lease.verify()}, and from now on by my clock ${lease.isHeld}`);

const next = await operator.mutex(name).acquire();
console.log("the next holder's fence is greater:", next.fence > lease.fence);
console.log('my late release:', await lease.release());

await next.release();
await worker.close();
await operator.close();
redis.disconnect();
