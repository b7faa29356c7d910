//! Numbers of the scripts that others need too. The build script puts them in the place of their names.

/// No lease is longer than the greatest TTL, and clients refuse an answer of more than a day above that. The scripts cut a longer
/// TTL to this, just above that. In milliseconds. `core/src/wire/answer.rs` compares it with the table of options.
pub const CUT_TTL: i64 = 31 * 24 * 3_600_000 + 1;
