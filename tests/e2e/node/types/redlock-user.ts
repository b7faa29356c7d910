// A program that was written for node-redlock. It is compiled and run as it is, and with `leasehold/redlock` as its import.
// Both run at the same time and share the locks.
import { Redis } from 'ioredis';
import Redlock, { ExecutionError, type Lock, type RedlockAbortSignal, ResourceLockedError, type Settings } from 'redlock';

const redis = new Redis(process.env['REDIS_URL']!);
const settings: Partial<Settings> = { driftFactor: 0.01, retryCount: 500, retryDelay: 5, retryJitter: 5, automaticExtensionThreshold: 500 };
const redlock = new Redlock([redis], settings);
redlock.on('error', (error: unknown) => {
  if (!(error instanceof ResourceLockedError)) console.error(error);
});

/** Adds one without a transaction, so that two holders would lose an increment. */
async function increment(): Promise<void> {
  const value = Number(await redis.get('count'));
  await redis.set('count', value + 1);
}

async function main(): Promise<void> {
  for (let i = 0; i < 50; i++) {
    let lock: Lock = await redlock.acquire(['counter', 'another'], 5_000);
    await increment();
    if (i % 2 === 0) lock = await lock.extend(10_000);
    if (!(lock.expiration > Date.now())) throw new Error('it has ended');
    await lock.release();
  }
  const total: string | null = await redlock.using(['counter'], 2_000, async (signal: RedlockAbortSignal) => {
    await increment();
    if (signal.aborted) throw signal.error;
    return redis.get('count');
  });
  const held = await redlock.acquire([`mine:${process.pid}`], 5_000);
  const refusal = await redlock.using(held.resources, 1_000, { ...redlock.settings, retryCount: 2 }, async () => 'not refused').catch(async (error: unknown) => {
    if (!(error instanceof ExecutionError)) throw error;
    const votes = await Promise.all(error.attempts);
    return votes.map(({ votesAgainst, quorumSize }) => `${votesAgainst.size} of ${quorumSize}`).join(', ');
  });
  await redlock.release(held);
  console.log(`${Number(total) > 50} ${refusal}`);
  await redlock.quit();
}

void main();
