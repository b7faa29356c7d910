// A holder in a process of its own, which tests kill and pause: `worker.mjs PORT MODE NAME TTL_MS CLAIM_WINDOW_MS`.
// Its arguments and its output are those of the Rust program tests/e2e/live/src/bin/live-worker.rs, but it doesn't take several names.
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { writeGuarded } from '../support/guarded.mjs';

const [port, mode, name, ttl, claimWindow, counterPort] = process.argv.slice(2);
const sentinel = port.replace(/^sentinel:/, '');
const redis = sentinel === port ? new Redis(Number(port)) : new Redis({ sentinels: [{ host: '127.0.0.1', port: Number(sentinel) }], name: 'main' });
redis.on('error', () => {});
const locks = new LockManager(redis, { claimWindow: Number(claimWindow), responseTimeout: '60s' });
const lock = mode === 'read' ? locks.readWrite(name).read() : locks.readWrite(name).write();

if (mode === 'turns') {
  const counter = new Redis(Number(counterPort));
  let over = false;
  process.stdin.resume().on('end', () => { over = true; });
  while (!over) {
    const lease = await locks.mutex(name).acquire({ ttl: Number(ttl) }).catch(() => undefined);
    if (lease === undefined) continue;
    const granted = now();
    const inside = await counter.incr('inside');
    await new Promise((resolve) => setTimeout(resolve, 2));
    const { isHeld } = lease;
    await counter.decr('inside');
    // Report only turns whose lease was held to the end, by the local clock.
    if (isHeld) console.log(`turn ${lease.fence} ${granted} ${inside}`);
    await lease.release().catch(() => {});
  }
  process.exit();
}

if (mode === 'inspect') {
  for await (const _ of createInterface({ input: process.stdin })) {
    const [holder] = (await locks.inspect(name)).holders;
    console.log(holder === undefined ? 'free' : `label ${holder.leaseLabel ?? 'none'}`);
  }
  process.exit();
}

const OUTCOMES = {
  released: 'Released', 'still-held': 'StillHeld', 'already-expired': 'AlreadyExpired', 'not-owner': 'NotOwner', detached: 'Detached',
};

const lease = await lock.acquire({ ttl: Number(ttl), label: 'job 17' });
console.log(`held ${lease.fence}`);
void lease.lost.then((reason) => console.log(`lost ${reason}`));

for await (const order of createInterface({ input: process.stdin })) {
  const [verb, key, value] = order.split(' ');
  if (verb === 'release') {
    console.log(OUTCOMES[await lease.release()]);
    break;
  }
  // Write with the fence of the lease, without checking whether the lease is still valid.
  console.log(await writeGuarded(redis, key, lease.fence, value) ? 'written' : 'refused');
}
process.exit();

/** The time in microseconds, by the system clock, which all processes of the machine share. */
function now() {
  return Math.round((performance.timeOrigin + performance.now()) * 1000);
}
