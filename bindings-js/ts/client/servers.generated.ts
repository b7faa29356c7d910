// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

/** Servers that can't be used: what a line of their `INFO` begins with, and the problem around the rest of the line. */
export const REFUSED_SERVERS: readonly (readonly [begin: string, before: string, after: string])[] = [
  ["kvrocks_version:", "Kvrocks ", " can't be used: it reports the version 4.0.0 of Redis, and leasehold is not tested on it"],
  ["role:active-replica", "the server is an active replica of KeyDB, so two servers accept writes: set `active-replica no`", ""],
];

/** What a line of KeyDB's `INFO server` begins with. */
export const KEYDB = "features:cluster_mget";

/** What an error reply to `INFO` says, in lower case, if the server doesn't tell about itself. */
export const REFUSES_INFO: readonly string[] = ["noperm", "unknown command", "unsupported command", "not support", "not allowed", "permission deny", "server' not found"];

/** The servers that can be used: the oldest version, and the command that deletes a key by its value, since a version. */
export const SUPPORTED_SERVERS = [
  { name: "Valkey", version: "valkey_version:", oldest: [7, 2], command: "DELIFEQ", deletes: [9, 0] },
  { name: "Redis", version: "redis_version:", oldest: [6, 2], command: "DELEX", deletes: [8, 4] },
] as const;

/** What is wrong with a server that is too old: between its version and the one needed, and after that. */
export const TOO_OLD = [" is too old: leasehold needs ", " or newer"] as const;

/** A script on keys of two slots. It writes nothing, and answers 0, or why scripts can't read the clock. */
export const PROBE: readonly string[] = ["EVAL", "local clock = redis.pcall('TIME') if clock.err then clock = redis.pcall('PEXPIRETIME', KEYS[1]) end return type(clock) == 'table' and clock.err and 'NOCLOCK ' .. clock.err or 0", "2", "leasehold:fence:{@@@@}", "leasehold:fence:{@@@A}"];

/** If they can't: what the answer begins with, and the problem, before the server's refusal. */
export const NO_CLOCK = ["NOCLOCK ", "the server refuses TIME in scripts, and they can't run PEXPIRETIME in its place: use Redis 7.0 or Valkey 7.2 or newer, or grant this user +time, or +pexpiretime and +persist: "] as const;

/** What is wrong with the option: the server takes other calls, or why it doesn't tell. */
export const NO_SLOTS = ["but the server takes keys of different slots in one call: leave it out", "and can't be checked: "] as const;

/** The counters of 16 slots. One node of a cluster answers `MOVED` for some of them. */
export const SLOT_COUNTERS: readonly string[] = ["leasehold:fence:{AKOB}", "leasehold:fence:{@@AH}", "leasehold:fence:{AOCO}", "leasehold:fence:{@DME}", "leasehold:fence:{CHLI}", "leasehold:fence:{BCBC}", "leasehold:fence:{CL@D}", "leasehold:fence:{BGNN}", "leasehold:fence:{@BGN}", "leasehold:fence:{AIID}", "leasehold:fence:{@FKC}", "leasehold:fence:{AMEI}", "leasehold:fence:{BADE}", "leasehold:fence:{CJJO}", "leasehold:fence:{BEHH}", "leasehold:fence:{CNFB}"];
