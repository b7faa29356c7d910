// A client of a torture run in a process of its own: `node worker.mjs ORDERS`. It does what the worker in Rust does
// (src/worker/program.rs), and prints the same lines.
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { LockManager, Owner } from 'leasehold';
import { createClient, createCluster } from 'redis';

const orders = JSON.parse(process.argv[2]);
const RESPONSE_TIMEOUT = 500;
const CLAIM_WINDOW = 600;
const NODE_TIMEOUT = 200;
const LONGEST_TTL = 2_000;
/** A process that does nothing for longer than this records it, in microseconds. */
const TICK_LATE = 30_000;

/** Several callers share an owner. */
const owners = [new Owner(), new Owner()];

let ending = false;
let calls = 0;
let leases = 0;

const ended = new Promise((resolve) => process.stdin.resume().on('end', () => { ending = true; resolve(); }));
// Losses are recorded, so nobody needs the warning.
process.on('warning', () => {});
noticeStalls();
const locks = await connect();
if (locks !== undefined) {
  const callers = Array.from({ length: orders.callers }, (_, caller) => takeTurns(caller % owners.length, random(orders.seed + caller)));
  if (orders.topology === 'quorum') callers.push(findOwnId());
  await ended;
  // Callers still wait and hold now: closing ends all of that.
  const call = begins('close', { within: RESPONSE_TIMEOUT });
  const { unreleased } = await locks.close();
  tell({ what: 'ended', call, outcome: `${unreleased} unreleased` });
  await Promise.all(callers);
}
process.exit();

async function takeTurns(owner, chance) {
  while (!ending) {
    const target = orders.locks[chance(0, orders.locks.length - 1)];
    const terms = makeTerms(target, owner, chance);
    try {
      await takeTurn(target, terms, chance(1, 4) === 1);
    } catch (error) {
      if (error.code === 'closed') return;
      await sleep(20);
    }
    await sleep(chance(0, 40));
  }
}

async function takeTurn(target, terms, tries) {
  const granted = tries ? await triesOf(target, terms) : await waits(target, terms);
  if (granted === undefined) return;
  const turns = [hold(target, terms, granted)];
  if (terms.again) turns.push(takeTurn(target, { ...terms, again: false, hold: terms.hold / 2 }, tries));
  const failed = (await Promise.allSettled(turns)).find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

function makeTerms({ name }, owner, chance) {
  let renew = chance(1, 5) !== 1;
  let ttl = renew ? chance(900, LONGEST_TTL) : chance(700, 1_200);
  const long = name.endsWith('long');
  // Most turns are short. Some need renewals, and some outlast a fixed lease.
  const hold = long || chance(1, 40) === 1 ? chance(500, 2_500) : chance(1, chance(1, 60));
  const wait = chance(500, long ? 1_000 : 5_000);
  const conversions = name === 'page-a' && chance(1, 2) === 1 ? chance(1, 2) : 0;
  const again = isReentrant(name) && chance(1, 2) === 1;
  // An owner that enters again gets the lease that it has, so all calls of an owner ask for the same one.
  if (isReentrant(name)) [ttl, renew] = owner === 0 ? [1_500, true] : [1_000, false];
  return { owner, ttl, renew, wait, hold, conversions, again };
}

function isReentrant(name) {
  return name.startsWith('reentrant');
}

function lockOf({ name, share }, { owner }) {
  if (name.includes(', ')) return locks.multi(name.split(', '));
  if (isReentrant(name)) return locks.reentrant(name, owners[owner]);
  if (share === 'exclusive') return name.startsWith('page') ? locks.readWrite(name).write() : locks.mutex(name);
  if (share === 'shared') return locks.readWrite(name).read();
  const [permits, limit] = share.split('/').map(Number);
  return locks.semaphore(name, { limit, permits });
}

async function waits(target, terms) {
  const lock = lockOf(target, terms);
  const { ttl, renew, wait } = terms;
  return settled(asks('acquire', target, terms, wait), terms, lock.acquire({ ttl, renew, wait }));
}

async function triesOf(target, terms) {
  const lock = lockOf(target, terms);
  const { ttl, renew, wait } = terms;
  const answers = orders.topology === 'quorum' ? NODE_TIMEOUT * 8 : RESPONSE_TIMEOUT;
  return settled(asks('try', target, terms, Math.min(answers, wait)), terms, lock.tryAcquire({ ttl, renew, wait }));
}

/** Records how an acquire ends. Returns the lease with its number, if there is one. */
async function settled(call, terms, acquired) {
  let lease;
  try {
    lease = await acquired;
  } catch (error) {
    fails(call, error);
    throw error;
  }
  if (lease === null) {
    tell({ what: 'ended', call, outcome: 'busy' });
    return undefined;
  }
  return { number: grants(call, terms, lease), lease };
}

function fails(call, error) {
  tell({ what: 'ended', call, outcome: error.code ?? `${error}` });
}

function grants(call, { ttl, renew }, lease) {
  const at = now();
  const left = leftOf(lease);
  const number = leases++;
  const fences = lease.fences.size > 1 ? [...lease.fences.values()] : [];
  tell({ what: 'granted', call, lease: number, fence: lease.fence, fences, ttl, renewed: renew, left }, at);
  return number;
}

/** Holds a lease, and perhaps converts it, until the turn is over or the lease is lost. Then gives it back. */
async function hold(target, terms, { number, lease }) {
  const loss = { reason: undefined };
  const lost = lease.lost.then((reason) => {
    loss.reason = reason;
    tell({ what: 'lost', lease: number, reason });
  });
  let { share } = target;
  for (let left = terms.conversions; await keeps(terms, number, lease, lost, loss) && left > 0; left--) {
    const to = share === 'exclusive' ? 'shared' : 'exclusive';
    const converted = await converts(target, terms, number, lease, to);
    // After a downgrade that failed, it is not certain which share it has.
    if (converted === undefined && to === 'shared') break;
    if (converted !== undefined) [number, share] = [converted, to];
  }
  const call = begins('release', { name: target.name, lease: number, within: RESPONSE_TIMEOUT });
  const outcome = await lease.release().catch((error) => error.code ?? `${error}`);
  tell({ what: 'ended', call, outcome });
}

/** Looks at a lease for a while. Returns false if it is lost, or if this process ends. */
async function keeps(terms, number, lease, lost, loss) {
  const end = performance.now() + terms.hold;
  while (loss.reason === undefined && !ending) {
    // The clock first, so that the lease is valid to at least `at + left`.
    const at = now();
    const left = leftOf(lease);
    if (left > 0) tell({ what: 'held', lease: number, left }, at);
    const time = performance.now();
    const wake = time < end ? Math.min(time + 50, end) : time + 50;
    const timer = new AbortController();
    await Promise.race([lost, sleep(wake - time, undefined, { signal: timer.signal }).catch(() => {})]);
    timer.abort();
    // After its deadline, a lease is about to be lost. The notification must come.
    if (wake >= end && lease.isHeld) return loss.reason === undefined;
  }
  return false;
}

/** Returns the new number of the lease, if it has this share now. */
async function converts({ name }, terms, number, lease, share) {
  const op = share === 'shared' ? 'downgrade' : 'upgrade';
  // It ends with its lease at the latest. A renewal may be under way.
  const within = terms.renew ? terms.ttl : Math.ceil(lease.remaining);
  const call = begins(op, { name, share, lease: number, within });
  try {
    await lease[op]();
  } catch (error) {
    fails(call, error);
    return undefined;
  }
  return grants(call, terms, lease);
}

/** Finds out how the tokens of this process begin: a lock that nobody else takes shows it. */
async function findOwnId() {
  const name = `own-${orders.seed}`;
  while (!ending) {
    try {
      const lease = await locks.mutex(name).tryAcquire();
      const holder = (await locks.inspect(name)).holders[0];
      await lease?.release();
      // The rest of a token differs between the servers of a quorum.
      if (lease !== null && holder !== undefined) return tell({ what: 'client', id: holder.token.slice(0, 32) });
    } catch (error) {
      if (error.code === 'closed') return undefined;
    }
    await sleep(100);
  }
  return undefined;
}

function leftOf(lease) {
  return Math.floor(lease.remaining * 1_000);
}

/** Connects, however long that takes: the servers may be down. */
async function connect() {
  const options = { responseTimeout: RESPONSE_TIMEOUT, claimWindow: CLAIM_WINDOW };
  // Half of the workers use each library.
  const nodeRedis = orders.seed % 2 === 1;
  const redis = await Promise.race([connection(nodeRedis), ended]);
  if (redis === undefined) return undefined;
  if (orders.topology !== 'quorum') return new LockManager(redis, options);
  for (let told = ''; !ending;) {
    try {
      return await LockManager.quorum(redis, { ...options, nodeTimeout: NODE_TIMEOUT });
    } catch (error) {
      if (error.message !== told) console.error(told = error.message);
      await sleep(50);
    }
  }
  return undefined;
}

async function connection(nodeRedis) {
  const nodes = orders.urls.map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }));
  const quiet = (client) => client.on('error', () => {});
  const alone = async (url) => {
    if (!nodeRedis) return quiet(new Redis(url));
    const client = quiet(createClient({ url }));
    // A server of a quorum may be down now.
    const connected = client.connect();
    if (orders.topology === 'single') await connected;
    return client;
  };
  switch (orders.topology) {
    case 'single': return alone(orders.urls[0]);
    case 'sentinel': return quiet(new Redis({ sentinels: nodes, name: 'main' }));
    case 'cluster': {
      if (!nodeRedis) return quiet(new Cluster(nodes));
      const cluster = quiet(createCluster({ rootNodes: orders.urls.map((url) => ({ url })) }));
      await cluster.connect();
      return cluster;
    }
    default: return Promise.all(orders.urls.map(alone));
  }
}

/** Records when this process got no time, so that nobody takes it for a fault of the locks. */
function noticeStalls() {
  let last = now();
  setInterval(() => {
    const at = now();
    if (at - last > TICK_LATE) tell({ what: 'stalled', from: last }, at);
    last = at;
  }, 10).unref();
}

/** A caller asks for a lease. */
function asks(op, target, { owner }, within) {
  return begins(op, { ...target, owner: isReentrant(target.name) ? owner : undefined, within });
}

function begins(op, { name = '', share, owner, lease, within }) {
  const call = calls++;
  tell({ what: 'began', call, op, name, share, owner, lease, within });
  return call;
}

function tell(event, at = now()) {
  process.stdout.write(`${JSON.stringify({ at, ...event })}\n`);
}

/** The time of CLOCK_MONOTONIC in microseconds, which all processes of a machine share. */
function now() {
  return Number(process.hrtime.bigint() / 1_000n);
}

/** Numbers from a seed, both ends included: mulberry32 (Tommy Ettinger, 2017). */
function random(seed) {
  let state = seed >>> 0;
  return (low, high) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return low + Math.floor(((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32 * (high - low + 1));
  };
}
