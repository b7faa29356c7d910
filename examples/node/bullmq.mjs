// A BullMQ worker: at most two jobs at a time for each tenant, and one at a time for each invoice, in all workers together.
//
// A job that would wait for its tenant goes back to the queue. So it doesn't take a place in the worker from other tenants. For an
// invoice, a job waits: that is short. BullMQ gives a job to another worker if the first one stops too long. The lock of the invoice
// excludes that case, too, as the first worker's fence is the smaller one.
//
// It prints:
//   a small tenant's job runs while a big tenant is at its limit
//   big: 4 jobs, at most 2 at a time
//   small: 1 jobs, at most 1 at a time
//   invoice 1 was never charged twice at a time
//   closed: 0 leases lost, 0 locks unreleased
import { setTimeout as sleep } from 'node:timers/promises';
import { DelayedError, Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1';
const redis = new Redis(url);
const locks = new LockManager(redis);
const connection = { url, maxRetriesPerRequest: null };

const worker = new Worker('charges', async (job, token) => {
  const { tenant, invoice } = job.data;
  const permit = await locks.semaphore(`tenant:${tenant}`, { limit: 2, label: job.id }).tryAcquire();
  if (permit === null) {
    await job.moveToDelayed(Date.now() + 100, token); // this is no failed attempt
    throw new DelayedError();
  }
  try {
    await locks.mutex(`invoice:${invoice}`).run((lease) => charge(tenant, invoice, lease));
  } finally {
    await permit.release().catch(console.error); // the job is done, and the permit ends with its TTL
  }
}, { connection, concurrency: 3 });
worker.on('error', console.error);
let left = 5;
const done = new Promise((resolve, reject) => {
  worker.on('completed', () => --left === 0 && resolve());
  worker.on('failed', (_job, error) => reject(error));
});

// What the program prints: how many jobs ran, and how many at the same time.
const [running, most, jobs] = [new Map(), new Map(), new Map()];
function count(name, change) {
  const now = (running.get(name) ?? 0) + change;
  running.set(name, now);
  most.set(name, Math.max(most.get(name) ?? 0, now));
  if (change > 0) jobs.set(name, (jobs.get(name) ?? 0) + 1);
}

let ran;
const smallRan = new Promise((resolve) => (ran = resolve));

async function charge(tenant, invoice, lease) {
  const names = [tenant, `invoice ${invoice}`];
  for (const name of names) count(name, 1);
  if (tenant === 'small') ran();
  await smallRan; // the big tenant's jobs take longer than that
  await sleep(20, undefined, { signal: lease.signal });
  for (const name of names) count(name, -1);
}

const queue = new Queue('charges', { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.addBulk([1, 2, 3, 1].map((invoice) => ({ name: 'charge', data: { tenant: 'big', invoice } })));
await queue.add('charge', { tenant: 'small', invoice: 4 });

await smallRan;
console.log("a small tenant's job runs while a big tenant is at its limit");
await done;
for (const tenant of ['big', 'small']) console.log(`${tenant}: ${jobs.get(tenant)} jobs, at most ${most.get(tenant)} at a time`);
console.log(`invoice 1 was ${most.get('invoice 1') === 1 ? 'never ' : ''}charged twice at a time`);

// At SIGTERM: the worker takes no new jobs. A job that waits for a lock fails with `closed`, and runs again if it has attempts left.
const [, { lost, unreleased }] = await Promise.all([worker.close(), locks.close({ drain: '25s' })]);
console.log(`closed: ${lost} leases lost, ${unreleased} locks unreleased`);
await queue.close();
redis.disconnect();
