// Two instances have the same schedule of node-cron. At each time, one of them makes the report, and the other one gets its result.
//
// The name has the time for which the task was scheduled, which is the same on all hosts. A real job has '0 3 * * *' in place of each
// second, `wait` is longer than the job takes, and `keep` is longer than the clocks can differ.
//
// It prints:
//   instance 1 has a report of 3 rows
//   instance 2 has a report of 3 rows
//   no report was made twice
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import cron from 'node-cron';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const made = [];

async function instance() {
  const locks = new LockManager(redis);
  let task;
  const rows = await new Promise((resolve, reject) => {
    task = cron.schedule('* * * * * *', async ({ date }) => {
      const name = `report:${date.toISOString()}`;
      await locks.once(name, ({ signal }) => makeReport(name, signal), { keep: '36h', wait: '2h' }).then(resolve, reject);
    }, { timezone: 'UTC', noOverlap: true });
  });
  await task.destroy();
  await locks.close({ drain: '25s' });
  return rows;
}

async function makeReport(name, signal) {
  signal.throwIfAborted(); // the lock is lost: another instance may make the report now
  made.push(name);
  return ['a', 'b', 'c'];
}

const reports = await Promise.all([instance(), instance()]);
reports.forEach((rows, at) => console.log(`instance ${at + 1} has a report of ${rows.length} rows`));
console.log(`${new Set(made).size === made.length ? 'no' : 'a'} report was made twice`);
redis.disconnect();
