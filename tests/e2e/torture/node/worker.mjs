// A client of a torture run in a process of its own: `node worker.mjs ORDERS`. It does what the worker in Rust does
// (src/worker/program.rs), and prints the same lines.
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { LockManager, Owner } from 'leasehold';
import { createClient, createCluster } from 'redis';

const orders = JSON.parse(process.argv[2]);
const RESPONSE_TIMEOUT = 500;
const CLAIM_WINDOW = 600;
const NODE_TIMEOUT = 200;
const LONGEST_TTL = 2_000;
/** The election of the drill, and the TTL of its terms. */
const ELECTION = 'election';
const TERM = 1_000;
/** A new name for `once` begins each time this many microseconds of the shared clock have passed. */
const SERIES = 200_000;
/** The semaphores of the drill with limits, besides those of the tenants, and how many tenants have half of all jobs. */
const TOTAL = 'total';
const STARTS = 'starts';
const BUSY = 5;
/** How long a result is kept: longer than a run. */
const KEEP = 3_600_000;
/** A process that does nothing for longer than this records it, in microseconds. */
const TICK_LATE = 30_000;

/** Several callers share an owner. */
const owners = [new Owner(), new Owner()];

let ending = false;
let calls = 0;
let leases = 0;

/** When to kill itself. */
let crash;
const stopping = new AbortController();
/** Whether all callers give back what they have before the manager closes. */
let isCalm = false;
const input = createInterface({ input: process.stdin }).on('line', haveTrouble);
const ended = new Promise((resolve) => {
  const end = () => {
    ending = true;
    stopping.abort();
    resolve();
  };
  input.on('close', end);
  process.on('SIGTERM', () => {
    isCalm = true;
    end();
  });
});
// Losses are recorded, so nobody needs the warning.
process.on('warning', () => {});
noticeStalls();
const locks = await connect();
if (locks !== undefined) {
  const callers = Array.from({ length: orders.callers }, (_, caller) => work(caller));
  if (orders.topology === 'quorum') callers.push(findOwnId());
  if (orders.drill === 'election') void observe();
  await ended;
  if (isCalm) await Promise.all(callers);
  // Callers still wait and hold now: closing ends all of that.
  const call = begins('close', { within: RESPONSE_TIMEOUT });
  const { unreleased } = await locks.close();
  tell({ what: 'ended', call, outcome: `${unreleased} unreleased` });
  await Promise.all(callers);
}
process.exit();

function work(caller) {
  const chance = random(orders.seed + caller);
  switch (orders.drill) {
    case 'election': return campaign();
    case 'once': return callOnces(chance);
    case 'limits': return runJobs(caller, chance);
    default: return takeTurns(caller % owners.length, chance);
  }
}

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
  const fences = lease.fences.size > 1 ? [...lease.fences.values()] : [];
  return beginsLease(call, { ttl, renew, fence: lease.fence, fences, left }, at);
}

/** Records a lease that is valid for `left` from `at`. */
function beginsLease(call, { ttl, renew, fence, fences, left }, at) {
  const number = leases++;
  tell({ what: 'granted', call, lease: number, fence, fences, ttl, renewed: renew, left }, at);
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
    await wait(wake - time, lost);
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

/** Campaigns until this process ends. */
async function campaign() {
  const election = locks.election(ELECTION, { value: `${orders.seed}`, ttl: TERM });
  const asksAgain = () => begins('acquire', { name: ELECTION, share: 'exclusive', within: 86_400_000 });
  let call;
  while (!ending) {
    call = asksAgain();
    try {
      await election.lead(async (term) => {
        await lead(election, call, term);
        // It campaigns again as soon as this ends.
        call = ending ? undefined : asksAgain();
      }, { signal: stopping.signal });
    } catch (error) {
      if (call !== undefined) tell({ what: 'ended', call, outcome: ending ? 'given-up' : error.code ?? `${error}` });
      if (!ending) await sleep(20);
    }
  }
}

/** Leads until the term is lost, or until this process ends. Then it resigns. */
async function lead(election, call, term) {
  const at = now();
  const { signal } = term;
  const number = beginsLease(call, { ttl: TERM, renew: true, fence: term.fence, fences: [], left: leftOf(term) }, at);
  const over = new Promise((resolve) => signal.addEventListener('abort', resolve));
  while (!signal.aborted && !ending) {
    // The clock first: see src/worker/drills.rs.
    const looked = now();
    if (election.isLeader) tell({ what: 'held', lease: number, left: leftOf(term) }, looked);
    await wait(50, over, ended);
  }
  if (signal.aborted && !ending) return tell({ what: 'lost', lease: number, reason: signal.reason?.reason ?? signal.reason?.code ?? 'unknown' });
  const release = begins('release', { name: ELECTION, lease: number, within: RESPONSE_TIMEOUT });
  const outcome = await term.resign().catch((error) => error.code ?? `${error}`);
  tell({ what: 'ended', call: release, outcome });
}

/** Records who leads until this process ends. */
async function observe() {
  for (;;) {
    try {
      for await (const leader of locks.election(ELECTION).observe()) {
        tell({ what: 'observed', name: ELECTION, fence: leader?.fence, value: leader?.value });
      }
    } catch (error) {
      if (error.code === 'closed') return;
      console.error(`observer: ${error}`);
      await sleep(50);
    }
  }
}

/** Calls `once` for one name after the other. All processes begin with a name at the same time. */
async function callOnces(chance) {
  for (let last = 0; !ending;) {
    const time = now();
    const number = Math.floor(time / SERIES);
    if (number === last) {
      await wait((SERIES - time % SERIES) / 1_000, ended);
      continue;
    }
    last = number;
    while (!ending && !await callOnce(`once-${number}`, chance)) await sleep(20);
  }
}

/** Returns false if there is no result yet. */
async function callOnce(name, chance) {
  const tries = chance(1, 5) === 1;
  const wait = tries ? 0 : chance(500, 5_000);
  const ttl = chance(700, 1_500);
  const hold = chance(1, 20) === 1 ? chance(500, 2_000) : chance(1, chance(1, 40));
  const isBad = chance(1, 15) === 1;
  const within = tries ? RESPONSE_TIMEOUT : wait;
  let call = begins(tries ? 'try' : 'acquire', { name, share: 'exclusive', within });
  try {
    const value = await locks.once(name, async (lease) => {
      const terms = { ttl, renew: true, hold };
      const number = grants(call, terms, lease);
      call = undefined;
      const loss = { reason: undefined };
      const lost = lease.lost.then((reason) => {
        loss.reason = reason;
        tell({ what: 'lost', lease: number, reason });
      });
      if (isBad || !await keeps(terms, number, lease, lost, loss)) {
        // Whatever failed, the lease is given back now.
        const release = begins('release', { name, lease: number, within: RESPONSE_TIMEOUT });
        tell({ what: 'ended', call: release, outcome: 'work-failed' });
        throw new Error('the work failed');
      }
      crashes('before-write');
      call = begins('store', { name, lease: number, within: RESPONSE_TIMEOUT });
      const result = `${orders.seed}-${call}`;
      tell({ what: 'wrote', call, value: result });
      crashes('after-write');
      if (crash === 'storing') setTimeout(killItself, chance(0, 2));
      return result;
    }, { keep: KEEP, ttl, wait });
    tell({ what: 'answered', call, value });
    return true;
  } catch (error) {
    if (call !== undefined) fails(call, error);
    return false;
  }
}

/** Runs one job after the other until this process ends. */
async function runJobs(caller, chance) {
  // All tenants have callers, however few jobs there are.
  for (let next = orders.seed * orders.callers + caller; !ending; next++) {
    const tenant = (chance(1, 2) === 1 ? chance(0, BUSY - 1) : next) % orders.limits.tenants;
    try {
      await runJob(`tenant-${tenant}`, chance);
      await sleep(chance(0, 40));
    } catch (error) {
      if (error.code === 'closed') return;
      await sleep(20);
    }
  }
}

/** Takes the permits of the tenant and of all jobs as one lease, then the permit of a start. Then it works for a while. */
async function runJob(tenant, chance) {
  const { of_tenant: ofTenant, total } = orders.limits;
  const permits = chance(1, 8) === 1 ? 2 : 1;
  const both = locks.multi([locks.semaphore(tenant, { limit: ofTenant }), locks.semaphore(TOTAL, { limit: total, permits })]);
  const name = `${tenant}, ${TOTAL}`;
  const terms = { ttl: LONGEST_TTL, renew: true, hold: 86_400_000 };
  const granted = await takes(both, { name, share: `${permits}/${total}` }, terms, chance(1_000, 10_000), chance(1, 4) === 1);
  if (granted === undefined) return;
  const { number, lease } = granted;
  const loss = { reason: undefined };
  const lost = lease.lost.then((reason) => {
    loss.reason = reason;
    tell({ what: 'lost', lease: number, reason });
  });
  const over = new AbortController();
  const starting = starts(chance, over.signal);
  const decided = { reason: undefined };
  const decides = Promise.race([lost, starting]).then(() => {
    decided.reason = 'over';
  });
  await keeps(terms, number, lease, decides, decided);
  // The lease is lost, or this process ends. Otherwise the job has waited long enough.
  over.abort(Object.assign(new Error('given up'), { code: 'given-up' }));
  if (await starting) await keeps({ hold: chance(100, chance(100, 3_000)) }, number, lease, lost, loss);
  const call = begins('release', { name, lease: number, within: RESPONSE_TIMEOUT });
  const outcome = await lease.release().catch((error) => error.code ?? `${error}`);
  tell({ what: 'ended', call, outcome });
}

/** Whether the job may start now, or soon. */
async function starts(chance, signal) {
  const { starts: limit, per } = orders.limits;
  const terms = { ttl: LONGEST_TTL, renew: true, signal };
  const rate = locks.semaphore(STARTS, { limit, per });
  const started = takes(rate, { name: STARTS, share: `1/${limit}` }, terms, chance(100, 4_000), chance(1, 2) === 1);
  return started.then((granted) => granted !== undefined, () => false);
}

async function takes(lock, target, terms, wait, tries) {
  const { ttl, renew, signal } = terms;
  if (tries) return settled(begins('try', { ...target, within: RESPONSE_TIMEOUT }), terms, lock.tryAcquire({ ttl, renew }));
  return settled(begins('acquire', { ...target, within: wait }), terms, lock.acquire({ ttl, renew, wait, signal }));
}

/** Does what the harness tells this process to. */
function haveTrouble(line) {
  const trouble = JSON.parse(line);
  crash ??= trouble.crash;
  // Nothing else runs meanwhile.
  if (trouble.block !== undefined) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, trouble.block);
}

/** Kills this process, if the harness said so for this moment. */
function crashes(moment) {
  if (crash === moment) killItself();
}

function killItself() {
  process.kill(process.pid, 'SIGKILL');
}

/** Waits until the time is over, or until one of the promises is settled. */
async function wait(time, ...others) {
  const timer = new AbortController();
  await Promise.race([...others, sleep(time, undefined, { signal: timer.signal }).catch(() => {})]);
  timer.abort();
}

function leftOf(lease) {
  return Math.floor(lease.remaining * 1_000);
}

/** Connects, however long that takes: the servers may be down. */
async function connect() {
  const options = { responseTimeout: RESPONSE_TIMEOUT, claimWindow: CLAIM_WINDOW };
  if (orders.drill === 'limits') options.label = orders.label;
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
