// One process of `cargo xtask demo`: a writer or a reader. demo/worker is the same program in Rust.
//
// Usage: `demo-worker.mjs writer|reader <prefix> <ttl ms>`, with the server in REDIS_URL. It reports what it does as JSON lines on
// standard output, accepts the command `linger` on standard input, and ends when standard input is closed.
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const LOCK = 'account';

const [role, prefix, ttl] = process.argv.slice(2);
const redis = new Redis(process.env.REDIS_URL);
// The machine may be building something, so the server may take long to answer.
const locks = new LockManager(redis, { prefix, ttl: Number(ttl), responseTimeout: '30 s' });
const orders = listen();

/** Refuses a smaller fence than the greatest one so far. */
const fenced = (then) => `
  if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1])) then return false end
  redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
  ${then}`;
const BEGIN = fenced("return redis.call('GET', KEYS[2])");
const COMMIT = fenced("for i = 2, 3 do redis.call('SET', KEYS[i], ARGV[2], 'KEEPTTL') end return 1");

/** The shared state: a counter and its mirror. It checks fences: once a writer has come with a fence, it refuses every smaller one. */
const account = {
  counter: async () => Number(await redis.get(`${prefix}counter`)),
  mirror: async () => Number(await redis.get(`${prefix}mirror`)),
  /** A writer comes with this fence. Returns the counter, or `null` if the fence is too old. */
  async begin(fence) {
    const counter = await redis.eval(BEGIN, 2, `${prefix}fence`, `${prefix}counter`, fence);
    return counter === null ? null : Number(counter);
  },
  /** Writes the counter and its mirror, unless the fence is too old. Returns whether it did. */
  async commit(fence, counter) {
    const keys = ['fence', 'counter', 'mirror'].map((key) => prefix + key);
    return await redis.eval(COMMIT, 3, ...keys, fence, counter) === 1;
  },
};

await redis.ping();
tell({ event: 'ready', server: '' });
await (role === 'writer' ? write() : read());
await locks.close();
redis.disconnect();

/** Changes the account in a loop: reads, thinks and writes. */
async function write() {
  while (!orders.stop) {
    const asked = now();
    const lease = await locks.mutex(LOCK).acquire();
    const granted = now();
    const { fence } = lease;

    const counter = await account.begin(fence);
    const lingers = orders.linger;
    orders.linger = false;
    if (lingers) {
      tell({ event: 'lingering', fence });
      await lease.lost;
    } else {
      await think(fence);
    }

    const accepted = counter !== null && await account.commit(fence, counter + 1);
    if (accepted && lingers) tell({ event: 'slipped', fence });
    else if (accepted) tell({ event: 'done', fence, asked, granted, released: now(), consistent: true });
    else if (lease.isHeld) throw new Error('there was another writer during a valid lease');
    else tell({ event: 'refused', fence });
    await lease.release();
  }
}

/** Reads the account in a loop, together with other readers. It must never see half of a change. */
async function read() {
  while (!orders.stop) {
    const asked = now();
    const lease = await locks.readWrite(LOCK).read().acquire();
    const granted = now();
    const counter = await account.counter();
    await think(lease.fence);
    const consistent = await account.mirror() === counter;
    // Only what was read during the lease counts.
    if (lease.isHeld) tell({ event: 'done', fence: lease.fence, asked, granted, released: now(), consistent });
    await lease.release();
    await sleep(20);
  }
}

/** Waits for one to four milliseconds: work that others must not disturb. */
function think(fence) {
  return sleep(1 + fence % 4);
}

/** Reads the demo's commands from standard input. */
function listen() {
  const wanted = { linger: false, stop: false };
  createInterface({ input: process.stdin })
    .on('line', () => { wanted.linger = true; })
    .on('close', () => { wanted.stop = true; });
  return wanted;
}

function tell(event) {
  console.log(JSON.stringify(event));
}

/** The time in microseconds, by the system clock, which all processes of the machine share. */
function now() {
  return Math.round((performance.timeOrigin + performance.now()) * 1000);
}
