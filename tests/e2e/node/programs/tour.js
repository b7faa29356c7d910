/**
 * A tour of the package, for every runtime: a lock, a wait inside the client and between clients, a loss, the end.
 * `run(words)` sends a command. It is needed only if `connection` has no `call`.
 */
export default async function tour(connection, LockManager, flush = () => connection.call('FLUSHALL')) {
  const check = (right, what) => {
    if (!right) throw new Error(`not as promised: ${what}`);
  };
  const [one, other] = [new LockManager(connection), new LockManager(connection)];

  const lease = await one.mutex('tour').acquire();
  check(Number.isSafeInteger(lease.fence) && lease.isHeld && lease.remaining > 0, 'a lease');
  check(await other.mutex('tour').tryAcquire() === null, 'a lock that is held is busy');
  const order = [];
  const inside = one.mutex('tour').run(async (next) => order.push(next.fence));
  const outside = other.mutex('tour').run(async (next) => order.push(next.fence));
  check(await lease.release() === 'released', 'a release');
  await Promise.all([inside, outside]);
  check(order[0] > lease.fence && order[1] > order[0], `fences that rise: ${[lease.fence, ...order]}`);

  const [reader, second] = await Promise.all([one, other].map((locks) => locks.readWrite('tour').read().acquire()));
  await Promise.all([reader.release(), second.release()]);

  const events = [];
  for (const name of ['acquiring', 'acquire', 'release', 'lost']) one.on(name, ({ code, reason }) => events.push(code ?? reason ?? name));
  await one.mutex('tour').run(() => {});
  const doomed = await one.mutex('tour').acquire({ ttl: 300 });
  await flush();
  check(await doomed.lost === 'gone' && doomed.signal.aborted, 'a loss is told');
  check(events.join() === 'acquiring,granted,released,acquiring,granted,gone', `events: ${events}`);

  const cancelled = AbortSignal.abort(new Error('no more'));
  const error = await one.mutex('tour').acquire({ signal: cancelled }).catch((error) => error);
  check(error === cancelled.reason, 'a wait is cancelled');
  await one.close();
  const closed = await one.mutex('tour').acquire().catch((error) => error);
  check(closed.code === 'closed', 'a closed manager says so');
  await other.close();
  console.log('toured');
}
