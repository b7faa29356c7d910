// A program that was written for node-redlock 4. It is compiled and run as it is, and with `leasehold/redlock4` as its import.
// Both run at the same time and share the locks.
import Bluebird from 'bluebird';
import { Redis } from 'ioredis';
import Redlock from 'redlock-4';

const redis = new Redis(process.env['REDIS_URL']!);
const options: Redlock.Options = { driftFactor: 0.01, retryCount: 500, retryDelay: 5, retryJitter: 5 };
// The original's types don't know ioredis's clients.
const client = redis as unknown as Redlock.CompatibleRedisClient;
const redlock = new Redlock([client], options);
redlock.on('clientError', (error: unknown) => console.error(error));

/** Adds one without a transaction, so that two holders would lose an increment. */
async function increment(): Promise<void> {
  const value = Number(await redis.get('count'));
  await redis.set('count', value + 1);
}

async function main(): Promise<void> {
  for (let i = 0; i < 49; i++) {
    const lock: Redlock.Lock = await redlock.acquire(['counter', 'another'], 5_000);
    await increment();
    if (i % 2 === 0 && (await lock.extend(10_000)) !== lock) throw new Error('not the same lock');
    if (!(lock.expiration > Date.now())) throw new Error('it has ended');
    await redlock.release(lock);
  }
  // The two other styles: callbacks, and Bluebird's `using`.
  await new Promise<void>((resolve, reject) => {
    redlock.lock('counter', 5_000, (error: unknown, lock?: Redlock.Lock) => {
      if (error) return reject(error);
      void increment().then(() => lock?.unlock((error: unknown) => (error ? reject(error) : resolve())));
    });
  });
  await Bluebird.using(redlock.disposer('counter', 5_000), async (lock: Redlock.Lock) => {
    if (lock.attempts > 0) await increment();
  });

  const name = `mine:${process.pid}`;
  const held = await redlock.lock(name, 5_000);
  const refused = await new Redlock([client], { retryCount: 2, retryDelay: 1 }).lock(name, 1_000).catch((error: Redlock.LockError) => `${error.name} ${error.attempts}`);
  await held.unlock().finally(() => undefined);
  console.log(refused);
  await redlock.quit();
}

void main();
