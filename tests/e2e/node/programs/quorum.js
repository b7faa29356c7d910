/** Uses a quorum of three servers, for every runtime. Its engine is a separate module, which is loaded on demand. */
export default async function quorum(connections, LockManager) {
  const check = (right, what) => {
    if (!right) throw new Error(`not as promised: ${what}`);
  };
  const patient = { nodeTimeout: '2s' };
  const [one, other] = [await LockManager.quorum(connections, patient), await LockManager.quorum(connections, patient)];
  const lease = await one.mutex('quorum').acquire();
  check(await other.mutex('quorum').tryAcquire() === null, 'a lock that a majority holds is busy');
  const error = await other.mutex('quorum').acquire({ wait: 50 }).catch((error) => error);
  check(error.code === 'busy' && error.votes.length === 3, `an error tells the votes: ${error}`);
  check(await lease.release() === 'released', 'a release');
  await other.mutex('quorum').run(async (next) => check(next.fence > lease.fence, 'a greater fence'));
  const even = await LockManager.quorum(connections.slice(1)).catch((error) => error);
  check(even.code === 'invalid-option' && even.field === 'servers', 'an even number is refused');
  await one.close();
  await other.close();
  console.log('agreed');
}
