// A Worker. A request for `/<SET|leasehold>/<cycles>` is answered with the time in milliseconds.
import { LockManager } from 'leasehold';
import { cloudflareConnection } from 'leasehold/cloudflare';
import { runtimeCycles, timeOf } from './runtime-cycles.mjs';

export default {
  async fetch(request, env) {
    const [, contender, count] = new URL(request.url).pathname.split('/');
    // In a Worker, a socket belongs to one request.
    const connection = cloudflareConnection(env.REDIS_URL);
    const locks = new LockManager(connection);
    try {
      const cycles = await runtimeCycles(locks, (words) => connection.call(words));
      return Response.json(await timeOf(cycles[contender], contender, Number(count)));
    } catch (error) {
      return new Response(`${error.stack}`, { status: 500 });
    } finally {
      await locks.close();
      connection.close();
    }
  },
};
