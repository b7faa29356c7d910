const TTL = 30_000;
const DELETE_IF_EQUAL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const NAMES = 10;
const WARM_UP = 200;
let sets = 0;

/** Sends words over a connection: an ioredis client, or an object with `call`. */
export async function runtimeCycles(locks, send) {
  const script = textOf(await send(['SCRIPT', 'LOAD', DELETE_IF_EQUAL]));
  return {
    async SET(name) {
      const token = `01234567-89ab-cdef-0123-456789abcdef:${++sets}`;
      const reply = await send(['SET', name, token, 'PX', `${TTL}`, 'NX']);
      if (reply === null) throw new Error(`${name} is not free`);
      await send(['EVALSHA', script, '1', name, token]);
    },
    async leasehold(name) {
      const lease = await locks.mutex(name).acquire();
      await lease.release();
    },
  };
}

function textOf(reply) {
  return typeof reply === 'string' ? reply : new TextDecoder().decode(reply);
}

/** The time of so many cycles of one contender over ten names, in milliseconds. The first cycles don't count. */
export async function timeOf(cycle, contender, count) {
  for (let i = 0; i < WARM_UP; i++) await cycle(`${contender}-${i % NAMES}`);
  // workerd's clock moves with each answer of the server.
  const began = Date.now();
  for (let i = 0; i < count; i++) await cycle(`${contender}-${i % NAMES}`);
  return Date.now() - began;
}
