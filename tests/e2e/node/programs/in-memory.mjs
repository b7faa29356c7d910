// A lock on a server in memory is lost, without a server on this machine.
import { LockManager } from 'leasehold';
import { MemoryServer } from 'leasehold/testing';

const server = new MemoryServer();
const locks = new LockManager(server);
const lease = await locks.mutex('report').acquire();
server.clock.advance('30s');
console.log(await lease.lost);
await locks.close();
