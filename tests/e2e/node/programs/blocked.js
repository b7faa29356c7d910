/** Blocks the event loop until the worker has renewed the lease, or for `BLOCKED` milliseconds. */
export default async function blocked(redis, LockManager, worker) {
  const locks = new LockManager(redis, { ttl: process.env.TTL ?? '30s', renewIn: { worker } });
  locks.on('worker', ({ error }) => console.log(error));
  const name = `blocked:${process.pid}:${Math.random()}`;
  const lease = await locks.mutex(name).acquire();
  const value = await redis.get(name);
  // Until the worker has started.
  await new Promise((resolve) => setTimeout(resolve, Number(process.env.STARTS_IN ?? 0)));
  const ends = performance.now() + Number(process.env.BLOCKED ?? 120_000);
  const memory = new Int32Array(new SharedArrayBuffer(4));
  for (let least = lease.remaining; performance.now() < ends; least = Math.min(least, lease.remaining)) {
    Atomics.wait(memory, 0, 0, 20);
    if (process.env.BLOCKED === undefined && lease.remaining > least + 1_000) break;
  }
  const held = lease.isHeld && !lease.signal.aborted;
  // By the server's record, it is the same lease.
  const same = (await redis.get(name)) === value;
  console.log(held && same ? 'kept' : `held here: ${held}, on the server: ${same}`, await lease.release());
  // The manager is not closed: its worker must not keep the process alive.
  redis.disconnect();
}
