import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL);
{
  await using locks = new LockManager(redis);
  {
    await using lease = await locks.mutex('used').acquire();
    if (!lease.isHeld) throw new Error('not held');
  }
  if (await locks.mutex('used').tryAcquire() === null) throw new Error('not released');
}
console.log('used');
redis.disconnect();
