// Every instance starts a job at night, and only one runs it.
//
// The lock alone is not enough: an instance whose clock is slow finds the lock free and would run the job again. So the job has a
// mark in Redis. The mark checks the fencing token: an instance that lost its lease can't mark the job as done.
//
// It prints:
//   sent page 1
//   sent page 2
//   sent page 3
//   the invoices of ..: ran
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);

/** Runs `work` once for this id in the whole fleet. Returns `ran` or `done before`. */
export async function once(id, work) {
  return locks.mutex(`job:${id}`).run(async (lease) => {
    const overtaken = new Error(`job ${id}: another instance has taken over`);
    const begun = await mark(id, lease.fence, 'begun');
    if (begun === 'done') return 'done before';
    if (begun === 'late') throw overtaken;
    await work(lease.signal);
    if (await mark(id, lease.fence, 'done') !== 'marked') throw overtaken;
    return 'ran';
  }, { wait: '1h' });
}

// One atomic step. It changes nothing after "done", and refuses a fence smaller than the greatest one so far.
const MARK = `
  local done, fence = unpack(redis.call('HMGET', KEYS[1], 'done', 'fence'))
  if done then return 'done' end
  if tonumber(ARGV[1]) < tonumber(fence or 0) then return 'late' end
  redis.call('HSET', KEYS[1], 'fence', ARGV[1])
  if ARGV[2] == 'done' then redis.call('HSET', KEYS[1], 'done', '1') end
  redis.call('EXPIRE', KEYS[1], 172800)
  return 'marked'`;

function mark(id, fence, state) {
  return redis.eval(MARK, 1, `job:${id}:mark`, fence, state);
}

// The scheduler of each instance calls this.
const night = process.argv[2] ?? new Date().toISOString().slice(0, 10);
const outcome = await once(`invoices:${night}`, async (signal) => {
  for (let page = 1; page <= 3; page++) {
    signal.throwIfAborted(); // the lease is lost: another instance may run the job now
    await sendInvoices(page);
  }
});
console.log(`the invoices of ${night}: ${outcome}`);
await locks.close();
redis.disconnect();

async function sendInvoices(page) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  console.log(`sent page ${page}`);
}
