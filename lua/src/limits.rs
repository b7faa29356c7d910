//! Numbers of the scripts that others need too. The build script puts them in the place of their names.

/// No lease is longer than 30 days, and clients refuse an answer of more than 31 days. The scripts cut a longer TTL to
/// this, just above that. In milliseconds.
pub const CUT_TTL: i64 = 31 * 24 * 3_600_000 + 1;
