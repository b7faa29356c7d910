// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

/**
 * The inputs. Behind each kind: the fields that it needs, and its text. `?` marks a field that may be absent. Behind them are the
 * other calls of users: `CallKind` in the core. Each has op and its fields. A mode is the flag `shared`, a name the text, and a time
 * the field `ttl`.
 * - `acquire`: op, ttl, renew?, shared?, wait?, within?, replicas? and replicaTimeout?, the plain options of a lock?, kind? and what
 *   it needs; the name.
 * - `acquireAll`: op, ttl, renew?, wait?, replicas? and replicaTimeout?, the plain options of a lock?, oneScript?, a list with three numbers
 *   for each part: the length of its name, its permits, and their limit. Without permits, a limit means a reader; the names.
 * - `adopt`: As for `acquire`, and channelLength; the lease's token and the name.
 * - `campaign`: As for `acquire`, and channelLength; the value and the name.
 * - `cancel`: op.
 * - `stopRenewing`: lease.
 * - `reply`: id, array?, a list with two numbers for each scalar: its kind and its value; the texts.
 * - `failed`: id, failure; the failure's text.
 * - `dedicatedReply`: As for `reply`, with op for id.
 * - `dedicatedFailed`: op, failure; the failure's text.
 * - `message`: channelLength; the channel and the payload.
 * - `subscribed`: The channel.
 * - `unsubscribed`: channelLength, failure; the channel and the failure's text.
 * - `wake`: Nothing: time has passed.
 */
export const InputKind = {
  acquire: 0,
  acquireAll: 1,
  adopt: 2,
  campaign: 3,
  cancel: 4,
  stopRenewing: 5,
  reply: 6,
  failed: 7,
  dedicatedReply: 8,
  dedicatedFailed: 9,
  message: 10,
  subscribed: 11,
  unsubscribed: 12,
  wake: 13,
  release: 14,
  store: 15,
  forget: 16,
  extend: 17,
  shorten: 18,
  detach: 19,
  convert: 20,
  hold: 21,
  export: 22,
  verify: 23,
  observe: 24,
  inspect: 25,
  forceRelease: 26,
  drain: 27,
  close: 28,
} as const;

/**
 * The fields of the record in which inputs arrive, in their order. A list of numbers follows them. Durations are in
 * milliseconds, lengths of texts in UTF-16 units. A field that is not written is absent. A flag is set if it is there. Behind
 * them are the plain options of a lock and those of a manager: `AcquireOptions::PLAIN` and `Config::PLAIN`.
 * - `op`: The user's operation.
 * - `lease`: The lease.
 * - `id`: The number of a command.
 * - `ttl`: How long the lease lasts without a renewal.
 * - `renew`: A flag: the lease is renewed.
 * - `shared`: A flag: the lease is shared with other readers.
 * - `wait`: How long the call waits. Infinity to wait forever, absent not to wait.
 * - `within`: How long a call that does not wait may take.
 * - `replicas`: How many replicas must have the lease.
 * - `replicaTimeout`: How long to wait for them.
 * - `kind`: The kind of a lock: its place in `Family` of the core. Absent for a mutex or a read-write lock.
 * - `owner`: The owner of a reentrant lock.
 * - `permits`: How many permits of a semaphore to take.
 * - `limit`: How many permits the semaphore has.
 * - `keep`: How long the server keeps the result of a once.
 * - `oneScript`: A flag: refuse names that one script can't take.
 * - `listLength`: How many numbers the list has.
 * - `array`: A flag: the reply is an array.
 * - `failure`: The kind of a failure.
 * - `channelLength`: The length of the channel's name, the token or the value, which another text follows.
 * - `foreign`: A flag: delete a key without a TTL, too.
 * - `last`: A flag of any input: the driver has no other one now, so a `wake` follows it.
 * - `batches`: A flag of a manager: see `Config`.
 * - `ahead`: A flag of a manager.
 */
export const InputField = {
  op: 0,
  lease: 1,
  id: 2,
  ttl: 3,
  renew: 4,
  shared: 5,
  wait: 6,
  within: 7,
  replicas: 8,
  replicaTimeout: 9,
  kind: 10,
  owner: 11,
  permits: 12,
  limit: 13,
  keep: 14,
  oneScript: 15,
  listLength: 16,
  array: 17,
  failure: 18,
  channelLength: 19,
  foreign: 20,
  last: 21,
  batches: 22,
  ahead: 23,
  maxHold: 24,
  linger: 25,
  atLeast: 26,
  per: 27,
  maxWaiters: 28,
  localHandoffs: 29,
  claimWindow: 30,
  responseTimeout: 31,
  nodeTimeout: 32,
  mixedFleet: 33,
} as const;

/**
 * The kinds of a scalar in a reply. Behind each: what its value is.
 * - `nil`: Any number.
 * - `integer`: The integer.
 * - `text`: The text's length in UTF-16 units. The texts follow each other.
 */
export const ScalarKind = {
  nil: 0,
  integer: 1,
  text: 2,
} as const;

/**
 * The outputs. Behind each kind: its fields in their order. Times are in microseconds, durations in milliseconds, flags 0 or
 * 1. `?` marks a number that may be absent, `"` the length of a text. Behind them are the outcomes of operations: op, and the
 * fields of the outcome. A grant is lease, shared, fence, validUntil, local. An inspection is lastFence?, waiting, the numbers of
 * holders and of waiters; shared, remaining?, foreign, held? and token" of each holder; shared, waited?, callers and token"
 * of each waiter.
 * - `send`: id, node, command", the command's length in bytes.
 * - `sendDedicated`: op, key", command", the command's length in bytes.
 * - `closeDedicated`: op.
 * - `subscribe`: channel".
 * - `unsubscribe`: channel".
 * - `leader`: op, fence?, led, value".
 * - `lost`: lease, reason.
 * - `failed`: op, code, waited?, holderRemaining?, waiters?, reason?, confirmed?, wanted?, field", cause?, text", the number of votes; server",
 *   answer" and problem" of each.
 */
export const OutputKind = {
  send: 0,
  sendDedicated: 1,
  closeDedicated: 2,
  subscribe: 3,
  unsubscribe: 4,
  leader: 5,
  lost: 6,
  failed: 7,
} as const;
