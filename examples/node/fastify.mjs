// A Fastify service: one lock manager for all routes, 503 while a lock is busy, and a clean end.
//
// It prints:
//   two requests at once: 200 charged, 200 charged before
//   while a colleague holds the lock: 503 busy
//   closed, and no lock is left
import Fastify from 'fastify';
import plugin from 'fastify-plugin'; // makes `app.locks` visible outside of the plugin
import { Redis } from 'ioredis';
import { LockManager, isLeaseholdError } from 'leasehold';

const URL = process.env.REDIS_URL ?? 'redis://127.0.0.1';

/** Gives the service `app.locks`, and each request `request.gone`, a signal that aborts when its client has left. */
const locks = plugin(async (app, { url }) => {
  const redis = new Redis(url);
  const manager = new LockManager(redis);
  app.decorate('locks', manager);
  app.decorateRequest('gone', null);
  app.addHook('onRequest', async (request, reply) => {
    const gone = new AbortController();
    reply.raw.on('close', () => gone.abort());
    request.gone = gone.signal;
  });
  app.setErrorHandler((error, request, reply) => {
    const passes = isLeaseholdError(error) && (error.retryable || error.code === 'closed');
    if (passes) return reply.code(503).header('Retry-After', '1').send(error.code);
    throw error;
  });
  // Runs before the server waits for the last requests. Those that hold a lock finish. Those that wait for one get 503.
  let closing;
  app.addHook('preClose', async () => {
    closing = manager.close({ drain: '25s' });
  });
  // Runs after the last request. The manager gives back what it holds, so it goes before its connection.
  app.addHook('onClose', async () => {
    await closing;
    redis.disconnect();
  });
});

const app = Fastify();
await app.register(locks, { url: URL });

const charged = new Set(); // in a real service: a table with a column for the fence
app.post('/invoices/:id/charge', async ({ params: { id }, gone }) => {
  return app.locks.mutex(`invoice:${id}`).run(async (lease) => {
    if (charged.has(id)) return 'charged before';
    await charge(id, lease.fence);
    charged.add(id);
    return 'charged';
  }, { wait: '10s', signal: gone });
});
// Its caller would rather try again later than wait.
app.post('/invoices/:id/cancel', async ({ params: { id }, gone }) => {
  return app.locks.mutex(`invoice:${id}`).run(() => 'cancelled', { wait: '1s', signal: gone });
});

async function charge(_invoice, _fence) {
  await new Promise((resolve) => setTimeout(resolve, 20));
}

const url = await app.listen({ host: '127.0.0.1', port: 0 });
async function post(path) {
  const response = await fetch(`${url}/invoices/${path}`, { method: 'POST' });
  return `${response.status} ${await response.text()}`;
}

const both = await Promise.all([post('42/charge'), post('42/charge')]);
console.log('two requests at once:', both.sort().join(', '));

const redis = new Redis(URL);
const others = new LockManager(redis);
const colleague = await others.mutex('invoice:43').acquire();
console.log('while a colleague holds the lock:', await post('43/cancel'));
await colleague.release();

await app.close();
const left = (await redis.keys('invoice:*')).length;
console.log(`closed, and ${left === 0 ? 'no lock is' : `${left} locks are`} left`);
await others.close();
redis.disconnect();
