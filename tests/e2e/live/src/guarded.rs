use std::io;

use leasehold_servers::Connection;

/// Writes `value` to `key` like a resource that checks fences: refuses a smaller fence than it has seen.
///
/// # Errors
/// If the server can't be asked.
pub fn write_guarded(connection: &mut Connection, key: &str, fence: u64, value: &str) -> io::Result<bool> {
    const SCRIPT: &str = "
        if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then return 0 end
        redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
        return 1";
    let reply = connection.call(&["EVAL", SCRIPT, "1", key, &fence.to_string(), value])?;
    reply.integer().map(|written| written == 1).ok_or_else(|| io::Error::other(format!("it answered {reply:?}")))
}
