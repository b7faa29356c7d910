// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

/** Servers that can't be used: what a line of their `INFO` begins with, and the problem around the rest of the line. */
export const REFUSED_SERVERS: readonly (readonly [begin: string, before: string, after: string])[] = [
  ["kvrocks_version:", "Kvrocks ", " can't be used: it reports the version 4.0.0 of Redis, and leasehold is not tested on it"],
  ["role:active-replica", "the server is an active replica of KeyDB, so two servers accept writes: set `active-replica no`", ""],
];

/** What a line of KeyDB's `INFO server` begins with. */
export const KEYDB = "features:cluster_mget";
