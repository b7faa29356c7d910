// A lock that survives a failover: `acquire` returns only after a replica has the lease.
//
// It needs two servers in REDIS_URLS, separated by a comma, and makes the second a replica of the first. It prints:
//   no replica yet: not-replicated, 0 of 1
//   also on the replica: true
//   released: released
import { Redis } from 'ioredis';
import { isLeaseholdError, LockManager } from 'leasehold';

const urls = (process.env.REDIS_URLS ?? 'redis://127.0.0.1:6379,redis://127.0.0.1:6380').split(',');
const [primary, replica] = urls.slice(0, 2).map((url) => new Redis(url));
const locks = new LockManager(primary);
const transfer = locks.mutex('example:transfer', { waitForReplicas: { min: 1, timeout: '200ms' } });

// Too few replicas have the lease in time, so it is given back. A retry may help.
await transfer.acquire().catch((error) => {
  if (!isLeaseholdError(error, 'not-replicated')) throw error;
  console.log(`no replica yet: ${error.code}, ${error.confirmed} of ${error.wanted}`);
});

await primary.config('SET', 'repl-diskless-sync-delay', 0);
await replica.replicaof(primary.options.host, primary.options.port);

const lease = await transfer.acquire({ waitForReplicas: { min: 1, timeout: '30s' } });
console.log('also on the replica:', await replica.exists('example:transfer') === 1);
console.log('released:', await lease.release());

await locks.close();
await replica.replicaof('NO', 'ONE');
primary.disconnect();
replica.disconnect();
