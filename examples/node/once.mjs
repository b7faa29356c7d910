// Every instance starts a report at night. One of them makes it, and all of them get it.
//
// It prints:
//   this instance makes the report
//   three instances have 42 rows
//   the next night has another name
//   this instance makes the report
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
const nights = ['example:report:2026-11-28', 'example:report:2026-11-29'];
for (const night of nights) await locks.forget(night);

// The schedulers of three instances call this. Their clocks may differ.
const reports = await Promise.all([report(nights[0]), report(nights[0]), report(nights[0])]);
console.log(`three instances have ${new Set(reports.map(({ rows }) => rows)).values().next().value} rows`);
console.log('the next night has another name');
await report(nights[1]);
await locks.close();
redis.disconnect();

function report(night) {
  return locks.once(night, async (lease) => {
    console.log('this instance makes the report');
    await new Promise((resolve) => setTimeout(resolve, 50));
    lease.signal.throwIfAborted(); // the lease is lost: another instance may make the report now
    return { rows: 42 };
  }, { keep: '36h' }); // longer than the clocks of the instances can differ
}
