// An Express service: one lock manager for all routes, 503 while a lock is busy, and a clean end.
//
// It prints:
//   two requests at once: 200 charged, 200 charged before
//   while a colleague holds the lock: 503 busy
//   closed, and no lock is left
import { once } from 'node:events';
import express from 'express';
import { Redis } from 'ioredis';
import { LockManager, isLeaseholdError } from 'leasehold';

const URL = process.env.REDIS_URL ?? 'redis://127.0.0.1';
const redis = new Redis(URL);
const locks = new LockManager(redis);
const app = express();

const charged = new Set(); // in a real service: a table with a column for the fence
app.post('/invoices/:id/charge', async ({ params: { id } }, response) => {
  const gone = new AbortController();
  response.on('close', () => gone.abort()); // the client has left, so it needs no lock
  const outcome = await locks.mutex(`invoice:${id}`).run(async (lease) => {
    if (charged.has(id)) return 'charged before';
    await charge(id, lease.fence);
    charged.add(id);
    return 'charged';
  }, { wait: '2s', signal: gone.signal });
  response.send(outcome);
});

async function charge(_invoice, _fence) {
  await new Promise((resolve) => setTimeout(resolve, 20));
}

// Express 5 passes the rejections of async routes to this. It has four parameters, which is how Express recognises it.
app.use((error, _request, response, next) => {
  const passes = isLeaseholdError(error) && (error.retryable || error.code === 'closed');
  if (!passes || response.headersSent) return next(error);
  response.status(503).set('Retry-After', '1').send(error.code);
});

const server = app.listen(0, '127.0.0.1');
await once(server, 'listening');

/** Requests that hold a lock finish. Those that wait for one get 503. A program calls it at SIGTERM. */
async function close() {
  const closed = new Promise((resolve) => server.close(resolve)); // no new requests
  await Promise.all([closed, locks.close({ drain: '25s' })]);
  redis.disconnect(); // it is yours, and closes last
}
process.once('SIGTERM', close);

async function post(id) {
  const response = await fetch(`http://127.0.0.1:${server.address().port}/invoices/${id}/charge`, { method: 'POST' });
  return `${response.status} ${await response.text()}`;
}

const both = await Promise.all([post('42'), post('42')]);
console.log('two requests at once:', both.sort().join(', '));

const another = new Redis(URL);
const others = new LockManager(another);
const colleague = await others.mutex('invoice:43').acquire();
console.log('while a colleague holds the lock:', await post('43'));
await colleague.release();

await close();
const left = (await another.keys('invoice:*')).length;
console.log(`closed, and ${left === 0 ? 'no lock is' : `${left} locks are`} left`);
await others.close();
another.disconnect();
