// Two accounts as one lock: a transfer holds both or none, and transfers in opposite directions never deadlock.
//
// It prints:
//   1 -> 2: two fences, true
//   2 -> 1: two fences, true
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis, { prefix: 'example:account:' });

async function transfer(from, to) {
  await locks.multi([from, to]).run(async ({ fences }) => {
    // Each account refuses a fence that is smaller than the greatest one it has seen.
    console.log(`${from} -> ${to}: two fences, ${fences.get(from) > 0 && fences.get(to) > 0}`);
  });
}

await Promise.all([transfer('1', '2'), transfer('2', '1')]);
await locks.close();
redis.disconnect();
