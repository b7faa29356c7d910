import { Redis } from 'ioredis';
import Redlock from 'leasehold/redlock4';

const redlock = new Redlock(process.env.REDIS_URLS.split(',').map((url) => new Redis(url)));
const lock = await redlock.lock('bundled', 60_000);
console.log('taken');
await lock.unlock();
await redlock.quit();
