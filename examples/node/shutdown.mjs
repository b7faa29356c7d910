// A worker that gets SIGTERM: the job that runs finishes, the one that waits doesn't begin, and no lock is left.
//
// It prints:
//   the first job runs
//   SIGTERM
//   the second job is left to another worker: closed
//   the first job is done
//   closed: 0 leases lost, 0 locks unreleased
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { LockManager, isLeaseholdError } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);

process.once('SIGTERM', async () => {
  console.log('SIGTERM');
  process.once('SIGTERM', () => locks.close()); // a second one ends the drain
  // Kubernetes kills the process 30 s after the signal, unless it has a longer `terminationGracePeriodSeconds`.
  const { lost, unreleased } = await locks.close({ drain: '25s' });
  console.log(`closed: ${lost} leases lost, ${unreleased} locks unreleased`);
  redis.disconnect(); // it is yours, and closes last
});

async function job(name, work) {
  try {
    await locks.mutex('example:customer:7').run(async (lease) => {
      console.log(`the ${name} job runs`);
      await work(lease.signal);
      console.log(`the ${name} job is done`);
    });
  } catch (error) {
    if (!isLeaseholdError(error, 'closed')) throw error;
    console.log(`the ${name} job is left to another worker: ${error.code}`);
  }
}

let second;
await new Promise((started) => job('first', async (signal) => {
  started();
  // The signal aborts if the work takes longer than the drain.
  await once(process, 'SIGTERM', { signal });
  await second;
}));
second = job('second', async () => {});
process.kill(process.pid, 'SIGTERM'); // as a deploy does
