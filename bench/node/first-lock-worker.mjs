// `first-lock-worker.mjs <leasehold|SET>` connects, and then takes its first lock. It prints the wall-clock time and the CPU time of
// each part in milliseconds.
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL);
await redis.ping();
// The server must not have the scripts yet.
await redis.call('SCRIPT', 'FLUSH');
// Collect the garbage from loading the client library now, so that it doesn't count.
globalThis.gc();

const parts = {};
let time = performance.now();
let cpu = process.cpuUsage();
function part(name) {
  const { user, system } = process.cpuUsage(cpu);
  const now = performance.now();
  parts[name] = { wall: now - time, cpu: (user + system) / 1000 };
  [time, cpu] = [performance.now(), process.cpuUsage()];
}

if (process.argv[2] === 'SET') {
  await redis.set('first-lock', 'token', 'PX', 1000, 'NX');
  part('command');
} else {
  const { LockManager } = await import('leasehold');
  part('import');
  const locks = new LockManager(redis);
  part('manager');
  const lease = await locks.mutex('first-lock').acquire();
  part('acquire');
  await lease.release();
}
console.log(JSON.stringify(parts));
await redis.del('first-lock');
redis.disconnect();
