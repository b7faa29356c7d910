// One lock over three independent servers (Redlock). It is held while two of them agree.
//
// It needs three servers in REDIS_URLS, separated by commas. It prints:
//   one server is silent, and the lock is held: true
//   another client gets it: false
//   released: released
//   the next fence is greater: true
//   with two servers: `servers` ..
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const urls = (process.env.REDIS_URLS ?? 'redis://127.0.0.1:6379,redis://127.0.0.1:6380,redis://127.0.0.1:6381').split(',');
const servers = urls.map((url) => new Redis(url));
// How long a server may take to answer. 100 ms suits a LAN. Here, all servers may share a busy machine.
const options = { nodeTimeout: '10s' };
const [locks, others] = [await LockManager.quorum(servers, options), await LockManager.quorum(servers, options)];

// One server does not answer for half a second. The other two are enough.
const operator = new Redis(urls[0]);
await operator.client('PAUSE', 500);
const lease = await locks.mutex('example:ledger').acquire();
console.log('one server is silent, and the lock is held:', await lease.verify());
const another = await others.mutex('example:ledger').tryAcquire();
console.log('another client gets it:', another !== null);
console.log('released:', await lease.release());

const next = await others.mutex('example:ledger').acquire();
console.log('the next fence is greater:', next.fence > lease.fence);
await next.release();

await LockManager.quorum(servers.slice(1)).catch((error) => console.log('with two servers:', error.message));
await others.close();
await locks.close();
for (const client of [...servers, operator]) client.disconnect();
