const SCRIPT = `
  if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then return 0 end
  redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
  return 1`;

/** Writes `value` to `key` as a resource does that is guarded by fences: a smaller fence than it has seen is refused. */
export async function writeGuarded(redis, key, fence, value) {
  return await redis.eval(SCRIPT, 1, key, fence, value) === 1;
}
