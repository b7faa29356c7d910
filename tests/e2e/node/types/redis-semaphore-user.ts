// A program that was written for redis-semaphore. It is compiled and run as it is, and with `leasehold/redis-semaphore` as its
// import. Both run at the same time and share the locks.
import { Redis } from 'ioredis';
import { defaultTimeoutOptions, LostLockError, type LockLostCallback, type LockOptions, Mutex, TimeoutError, type TimeoutOptions } from 'redis-semaphore';

const redis = new Redis(process.env['REDIS_URL']!);
const times: TimeoutOptions = { ...defaultTimeoutOptions, lockTimeout: 5_000, acquireTimeout: 60_000 };

/** Adds one without a transaction, so that two holders would lose an increment. */
async function increment(): Promise<void> {
  const value = Number(await redis.get('count'));
  await redis.set('count', value + 1);
}

async function main(): Promise<void> {
  const mutex = new Mutex(redis, 'counter', times);
  for (let i = 0; i < 51; i++) {
    await mutex.acquire(AbortSignal.timeout(60_000));
    await increment();
    await mutex.release();
  }
  const name = `mine:${process.pid}`;
  let tell = (_message: string): void => {};
  const lost = new Promise<string>((resolve) => (tell = resolve));
  const onLockLost: LockLostCallback = (error) => tell(error instanceof LostLockError ? error.message : 'another error');
  const options: LockOptions = { lockTimeout: 500, refreshInterval: 100, onLockLost };
  const held = new Mutex(redis, name, options);
  if (!(await held.tryAcquire()) || !held.isAcquired) throw new Error('not acquired');
  const refused = await new Mutex(redis, name, { acquireTimeout: 20 }).acquire().catch((error: unknown) => error instanceof TimeoutError);
  await redis.del(`mutex:${name}`);
  console.log(`${refused} ${(await lost) === `Lost mutex for key mutex:${name}`}`);
  held.stopRefresh();
  await held.release();
  await redis.quit();
}

void main();
