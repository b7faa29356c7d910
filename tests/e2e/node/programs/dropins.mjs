// Uses both drop-ins, as a program of the originals' users does.
import { Redis } from 'ioredis';
import Redlock, { ExecutionError } from 'leasehold/redlock';
import { Mutex, TimeoutError } from 'leasehold/redis-semaphore';

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 0 });
const refused = await redlock.using(['dropins'], 5_000, () => redlock.acquire(['dropins'], 1_000).catch((error) => error instanceof ExecutionError));
const [mutex, other] = [new Mutex(redis, 'dropins'), new Mutex(redis, 'dropins', { acquireTimeout: 30 })];
await mutex.acquire();
const late = await other.acquire().catch((error) => error instanceof TimeoutError);
await mutex.release();
console.log(refused && late ? 'dropped in' : `refused ${refused}, late ${late}`);
await redlock.quit();
