// The npm package as a surface: carries out the steps of a scenario, one in each line of standard input, on the server in REDIS_URLS.
// Several servers, with commas between them, are a quorum.
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { LockManager, Owner } from 'leasehold';

const managers = new Map();
const leases = new Map();
const owners = new Map();

const acts = {
  async open({ client, handoffs, 'claim-window': claimWindow = 30_000, 'only-locks': onlyLocks = false }) {
    // On a busy machine, a server may answer late by tens of seconds.
    const options = { claimWindow, responseTimeout: 60_000, ...(handoffs === undefined ? {} : { localHandoffs: handoffs }) };
    const [redis, ...others] = process.env.REDIS_URLS.split(',').map((url) => new Redis(url, onlyLocks ? { enableReadyCheck: false, disableClientInfo: true } : {}));
    const manager = others.length === 0
      ? new LockManager(redis, options)
      : await LockManager.quorum([redis, ...others], { ...options, nodeTimeout: 60_000 });
    managers.set(client, manager);
    return 'open';
  },
  async acquire(step) {
    return granted(step, await lock(step).acquire(step.wait === undefined ? {} : { wait: step.wait }));
  },
  async try(step) {
    const lease = await lock(step).tryAcquire();
    return lease && granted(step, lease);
  },
  async adopt(step) {
    return granted(step, await lock(step).adopt(step.token));
  },
  token: ({ lease }) => leases.get(lease).token(),
  async inspect({ client, lock: name }) {
    const { holders, waiters, limit, per } = await managers.get(client).inspect(name);
    const mode = (one) => one.mode;
    return { holders: holders.map(mode), waiters: waiters.map(mode), ...(limit === null ? {} : { limit, per }) };
  },
  'force-release': ({ client, lock: name }) => managers.get(client).forceRelease(name),
  verify: ({ lease }) => leases.get(lease).verify(),
  held: ({ lease }) => leases.get(lease).isHeld,
  nested: (step) => granted(step, leases.get(step.lease).nested()),
  extend: ({ lease, ttl }) => leases.get(lease).extend(ttl).then(done),
  downgrade: ({ lease }) => leases.get(lease).downgrade().then(done),
  upgrade: ({ lease }) => leases.get(lease).upgrade().then(done),
  release: ({ lease }) => leases.get(lease).release(),
};

createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const { id, step } = JSON.parse(line);
    console.log(JSON.stringify({ id, outcome: await perform(step) }));
  })
  .on('close', () => process.exit());

async function perform(step) {
  try {
    return await acts[step.do](step);
  } catch (error) {
    if (error.code === undefined) throw error;
    return { error: error.code, retryable: error.retryable, message: error.message };
  }
}

function lock({ client, lock: name, mode, ttl, owner, limit, permits, per, names, 'one-script': oneScript = false }) {
  const options = ttl === undefined ? {} : { ttl };
  const manager = managers.get(client);
  if (names !== undefined) return manager.multi(names, { oneScript, ...options });
  if (owner !== undefined) return manager.reentrant(name, ownerOf(owner), options);
  if (limit !== undefined) return manager.semaphore(name, { limit, permits, per, ...options });
  return mode === 'shared' ? manager.readWrite(name, options).read() : manager.mutex(name, options);
}

function ownerOf(number) {
  const owner = owners.get(number) ?? new Owner();
  owners.set(number, owner);
  return owner;
}

function granted(step, lease) {
  leases.set(step.as, lease);
  const names = [...lease.fences.keys()];
  return { mode: lease.mode, held: lease.isHeld, fence: lease.fence, ...(names.length > 1 ? { names } : {}) };
}

function done() {
  return 'done';
}
