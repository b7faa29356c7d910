const SCRIPT = `
  if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then return 0 end
  redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
  return 1`;

/** Writes `value` to `key`, as a resource that checks fences: it refuses a fence smaller than the greatest one so far. */
export async function writeGuarded(redis, key, fence, value) {
  return await redis.eval(SCRIPT, 1, key, fence, value) === 1;
}
