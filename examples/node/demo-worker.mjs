// One process of `cargo xtask demo`, a writer or a reader. demo/worker is the same in Rust.
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
// The machine may be building something, so the server has much time to answer.
const locks = new LockManager(redis, { prefix, ttl: Number(ttl), responseTimeout: '30 s' });
const orders = listen();

/** A resource that checks fences: it remembers the greatest fence and refuses a write with a smaller one. */
const APPEND = `
  if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence')) then return 0 end
  redis.call('HSET', KEYS[1], 'fence', ARGV[1])
  redis.call('HINCRBY', KEYS[1], 'entries', 1)
  return 1`;

/** The shared state: a counter and its mirror, which only the lock protects, and a ledger, which checks fences. */
const account = {
  counter: async () => Number(await redis.get(`${prefix}counter`)),
  mirror: async () => Number(await redis.get(`${prefix}mirror`)),
  /** The two differ between the writes. */
  async set(value) {
    for (const key of ['counter', 'mirror']) await redis.set(prefix + key, value, 'EX', 3600);
  },
  append: async (fence) => await redis.eval(APPEND, 1, `${prefix}ledger`, fence) === 1,
};

await redis.ping();
tell({ event: 'ready', server: '' });
await (role === 'writer' ? write() : read());
await locks.close();
redis.disconnect();

/** Changes the account in a loop: reads, thinks and writes. Only the lock protects it. */
async function write() {
  while (!orders.stop) {
    const asked = now();
    const lease = await locks.mutex(LOCK).acquire();
    const granted = now();
    const { fence } = lease;

    const counter = await account.counter();
    if (orders.linger) {
      orders.linger = false;
      tell({ event: 'lingering', fence });
      await lease.lost;
    } else {
      await think(fence);
    }

    // The ledger checks fences, so it refuses a late writer even if the writer doesn't know that it is late.
    const late = !lease.isHeld;
    if (!await account.append(fence)) tell({ event: 'refused', fence });
    else if (late) tell({ event: 'slipped', fence });
    else {
      await account.set(counter + 1);
      tell({ event: 'done', fence, asked, granted, released: now(), consistent: true });
    }
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
    tell({ event: 'done', fence: lease.fence, asked, granted, released: now(), consistent });
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
