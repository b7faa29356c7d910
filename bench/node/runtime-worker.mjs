// Runs in Node, Bun and Deno. Each line of the input is `<SET|leasehold> <cycles>`, and its answer is the time in milliseconds.
import { createInterface } from 'node:readline';
import process from 'node:process';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { runtimeCycles, timeOf } from './runtime-cycles.mjs';

const redis = new Redis(process.env.REDIS_URL);
const locks = new LockManager(redis);
const cycles = await runtimeCycles(locks, ([name, ...words]) => redis.call(name, ...words));
for await (const line of createInterface({ input: process.stdin })) {
  const [contender, count] = line.split(' ');
  console.log(await timeOf(cycles[contender], contender, Number(count)));
}
await locks.close();
redis.disconnect();
