// An HTTP handler answers in time, whether it gets the lock or not, and stops waiting when its client disconnects.
//
// It prints:
//   200 shipped order-1 with fence ..
//   503 busy: try again
//   the client left: TimeoutError
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Redis } from 'ioredis';
import { LockManager, isLeaseholdError } from 'leasehold';

const DEADLINE = 2000;

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);

const server = createServer(async (request, response) => {
  const order = new URL(request.url, 'http://localhost').pathname.slice(1);
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  try {
    // The wait ends when the lock is free, at the deadline, or when the client disconnects, whichever comes first.
    const result = await locks.mutex(`order:${order}`).run((lease) => ship(order, lease), { wait: DEADLINE, signal: gone.signal });
    response.end(`${result}\n`);
  } catch (error) {
    if (gone.signal.aborted) return;
    if (isLeaseholdError(error) && (error.retryable || error.code === 'closed')) {
      response.writeHead(503, { 'Retry-After': '1' }).end(`${error.code}: try again\n`);
      return;
    }
    console.error(error);
    response.writeHead(500).end('failed\n');
  }
});

async function ship(order, lease) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return `shipped ${order} with fence ${lease.fence}`;
}

// Three requests: one gets the lock, one finds it busy until the deadline, one disconnects before that.
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1');
await once(server, 'listening');
const url = `http://127.0.0.1:${server.address().port}`;

const free = await fetch(`${url}/order-1`);
console.log(free.status, (await free.text()).trim().replace(/\d{16}/, '...'));

const colleague = await locks.mutex('order:order-2').acquire();
const busy = await fetch(`${url}/order-2`);
console.log(busy.status, (await busy.text()).trim());

const impatient = await fetch(`${url}/order-2`, { signal: AbortSignal.timeout(50) }).catch((error) => error.name);
console.log('the client left:', impatient);
await colleague.release();

const closed = once(server.close(), 'close');
server.closeAllConnections();
await closed; // now all handlers know that their clients have disconnected
await locks.close();
redis.disconnect();
