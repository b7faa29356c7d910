-- The fast path of an exclusive release: gives the lock back if nobody waits. Changes nothing otherwise.
-- KEYS    1 N
-- ARGV    1 N's value, as the acquire wrote it
-- Answer  1, or 0

return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0
