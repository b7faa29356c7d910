/** A separate process: `alone.ts <port> <what> <name>`, or `sentinel:<port>`. Its connection doesn't keep it alive, so only leasehold can. */

import { Redis } from 'ioredis-6';

import { isLeaseholdError, LockManager } from '../index.js';
import { GENEROUS, IMPATIENT } from './generous.js';
import { PRIMARY } from './topologies.js';

const [port = '', what, name = ''] = process.argv.slice(2);
const sentinel = port.replace(/^sentinel:/, '');
const redis = sentinel === port ? new Redis(Number(port), '127.0.0.1') : new Redis({ sentinels: [{ host: '127.0.0.1', port: Number(sentinel) }], name: PRIMARY });
await redis.ping();
(redis as unknown as { stream: { unref(): void } }).stream.unref();

const lock = new LockManager(redis, GENEROUS).mutex(name);
switch (what) {
  case 'released':
  case 'waited':
    await (await lock.acquire()).release();
    break;
  case 'held':
    await lock.acquire();
    break;
  case 'given-up': {
    // No server is there, and the client was told to stop trying. It emits no event for that.
    const dead = new Redis(1, '127.0.0.1', { retryStrategy: () => 60_000 });
    dead.on('error', () => {});
    await new LockManager(dead).mutex(name).acquire({ wait: 200 }).catch(() => {});
    dead.disconnect();
    break;
  }
  case 'unanswered': {
    const silent = () => ({ call: () => new Promise(() => {}) });
    await LockManager.quorum([silent(), silent(), silent()], IMPATIENT).catch(() => {});
    break;
  }
  case 'aborted':
    await lock.acquire({ signal: AbortSignal.timeout(200) }).catch(() => {});
    break;
  case 'timed-out':
    await lock.acquire({ wait: 200 }).catch((error: unknown) => {
      // On a slow machine the server may not have answered by then.
      if (!isLeaseholdError(error, 'busy') && !isLeaseholdError(error, 'unreachable')) throw error;
    });
    break;
}
process.on('exit', () => process.stdout.write('done\n'));
