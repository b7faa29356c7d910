// A Cloudflare Worker with a lock, over ioredis.
//
// It needs the compatibility flag `nodejs_compat`, and answers `worked with fence ...`, or 503 while another client holds the lock.
import { Redis } from 'ioredis';
import { LockManager, isLeaseholdError } from 'leasehold';

export default {
  async fetch(request, env) {
    // Inside the request, because a socket serves only one. `lazyConnect` reports a failure to the first command.
    const redis = new Redis(env.REDIS_URL, { lazyConnect: true, maxRetriesPerRequest: 1 });
    redis.on('error', () => {}); // the calls below reject as well
    const locks = new LockManager(redis);
    try {
      const report = await locks.mutex('report').run((lease) => write(lease), { wait: '2s' });
      return new Response(report);
    } catch (error) {
      if (!isLeaseholdError(error) || !error.retryable) throw error;
      return new Response(error.code, { status: 503, headers: { 'Retry-After': '1' } });
    } finally {
      await locks.close();
      redis.disconnect();
    }
  },
};

async function write({ fence }) {
  return `worked with fence ${fence}`;
}
