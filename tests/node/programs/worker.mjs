// A holder in a process of its own, to be killed and paused: `worker.mjs PORT MODE NAME TTL_MS CLAIM_WINDOW_MS`.
// It speaks as the Rust program tests/live/src/bin/live-worker.rs does.
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { writeGuarded } from '../support/guarded.mjs';

const [port, mode, name, ttl, claimWindow] = process.argv.slice(2);
const redis = new Redis(Number(port));
redis.on('error', () => {});
const locks = new LockManager(redis, { claimWindow: Number(claimWindow) });
const lock = mode === 'read' ? locks.readWrite(name).read() : locks.readWrite(name).write();

const OUTCOMES = {
  released: 'Released', 'still-held': 'StillHeld', 'already-expired': 'AlreadyExpired', 'not-owner': 'NotOwner',
};

const lease = await lock.acquire({ ttl: Number(ttl) });
console.log(`held ${lease.fence}`);
void lease.lost.then((reason) => console.log(`lost ${reason}`));

for await (const order of createInterface({ input: process.stdin })) {
  const [verb, key, value] = order.split(' ');
  if (verb === 'release') {
    console.log(OUTCOMES[await lease.release()]);
    break;
  }
  // With the fence it has, and without a look whether the lease still is valid.
  console.log(await writeGuarded(redis, key, lease.fence, value) ? 'written' : 'refused');
}
process.exit();
