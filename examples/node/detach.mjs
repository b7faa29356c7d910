// A job that is handed over: the process that accepts it leaves the lock to the server, and a worker takes the lease later.
//
// The first manager detaches the lease and closes. The lock stays taken for ten minutes, and no process renews it. The token goes
// with the job. With `atLeast`, a lock stays taken for a minimum time, whatever the work does.
//
// It prints:
//   the first manager has closed; the lock is free: false
//   the worker has a greater fence: true
//   after work that took no time, the lock is free: false
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const [web, worker] = [new LockManager(redis), new LockManager(redis)];

const accepted = await web.mutex('example:job').acquire();
const token = await accepted.detach({ for: '10m' });
await web.close();
const job = worker.mutex('example:job');
console.log('the first manager has closed; the lock is free:', (await job.tryAcquire()) !== null);

const lease = await job.adopt(token);
console.log('the worker has a greater fence:', lease.fence > accepted.fence);
await lease.release();

await job.run(() => {}, { atLeast: '10m' });
console.log('after work that took no time, the lock is free:', (await job.tryAcquire()) !== null);
await worker.forceRelease('example:job'); // so that you can run this program again at once
await worker.close();
redis.disconnect();
