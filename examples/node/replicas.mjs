// A lock that survives a failover: it is given out only once a replica has it.
//
// With two servers in REDIS_URLS, divided by a comma; the second is made a replica of the first. It prints:
//   no replica yet: not-replicated, 0 of 1
//   on the replica, too: true
//   released: released
import { Redis } from 'ioredis';
import { isLeaseholdError, LockManager } from 'leasehold';

const urls = (process.env.REDIS_URLS ?? 'redis://127.0.0.1:6379,redis://127.0.0.1:6380').split(',');
const [primary, replica] = urls.slice(0, 2).map((url) => new Redis(url));
const locks = new LockManager(primary);
const transfer = locks.mutex('example:transfer', { waitForReplicas: { min: 1, timeout: '200ms' } });

// Too few replicas have it in time: it is given back, and trying again may help.
await transfer.acquire().catch((error) => {
  if (!isLeaseholdError(error, 'not-replicated')) throw error;
  console.log(`no replica yet: ${error.code}, ${error.confirmed} of ${error.wanted}`);
});

await primary.config('SET', 'repl-diskless-sync-delay', 0);
await replica.replicaof(primary.options.host, primary.options.port);

const lease = await transfer.acquire({ waitForReplicas: { min: 1, timeout: '30s' } });
console.log('on the replica, too:', await replica.exists('example:transfer') === 1);
console.log('released:', await lease.release());

await locks.close();
await replica.replicaof('NO', 'ONE');
primary.disconnect();
replica.disconnect();
