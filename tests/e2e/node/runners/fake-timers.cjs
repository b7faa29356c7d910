// What holds under the fake timers of any test runner: its functions, its `timers`, and the package come from the caller.
module.exports = ({ afterEach, beforeEach, expect, LockManager, MemoryServer, Owner, test, timers }) => {
  beforeEach(() => timers.useFakeTimers());
  afterEach(() => timers.useRealTimers());

  test('a lease ends and a waiter gets the lock when the fake clock is advanced', async () => {
    const server = new MemoryServer();
    const [holder, waiter] = [new LockManager(server), new LockManager(server)];
    const heard = timers.fn();
    holder.on('lost', heard);
    const lease = await holder.mutex('report').acquire();
    const next = waiter.mutex('report').acquire();
    while ((await holder.inspect('report')).waiters.length === 0);
    timers.advanceTimersByTime(30_000);
    expect(await lease.lost).toBe('expired');
    expect(heard).toHaveBeenCalledTimes(1);
    expect((await next).fence).toBeGreaterThan(lease.fence);
  });

  test('a lease is renewed for hours when promises run in between, and is lost when its key is gone', async () => {
    const server = new MemoryServer();
    const lease = await new LockManager(server).mutex('report').acquire();
    await timers.advanceTimersByTimeAsync(3 * 3_600_000);
    expect(lease.isHeld).toBe(true);
    server.expire('report');
    await timers.advanceTimersByTimeAsync(10_000);
    expect(await lease.lost).toBe('gone');
  });

  test('a late reply, a lost one and a wait take fake time', async () => {
    const server = new MemoryServer();
    const [locks, other] = [new LockManager(server), new LockManager(server)];
    server.delay('1s');
    const late = locks.mutex('report').acquire();
    await timers.advanceTimersByTimeAsync(5_000);
    await late;
    server.delay(0);
    server.dropNextReply();
    const lost = locks.mutex('page').acquire();
    await timers.advanceTimersByTimeAsync(5_000);
    await lost;
    const busy = expect(other.mutex('report').acquire()).rejects.toMatchObject({ code: 'busy' });
    await timers.advanceTimersByTimeAsync(60_000);
    await busy;
  });

  test('a semaphore, a reentrant lock and a read-write lock are passed on', async () => {
    const server = new MemoryServer();
    const [locks, other] = [new LockManager(server), new LockManager(server)];
    const permit = await locks.semaphore('pages', { limit: 1 }).acquire();
    const next = other.semaphore('pages', { limit: 1 }).acquire();
    while ((await locks.inspect('pages')).waiters.length === 0);
    await permit.release();
    await next;
    const writer = await locks.readWrite('page').write().acquire();
    const reader = other.readWrite('page').read().acquire();
    while ((await locks.inspect('page')).waiters.length === 0);
    await writer.downgrade();
    await reader;
    // It has no queue on the server, so others ask again.
    const mine = await locks.reentrant('account', new Owner()).acquire();
    const theirs = other.reentrant('account', new Owner()).acquire();
    await mine.release();
    await timers.advanceTimersByTimeAsync(5_000);
    await theirs;
  });

  test('a quorum goes on while one of three servers is stopped', async () => {
    const first = new MemoryServer();
    const { clock } = first;
    const servers = [first, new MemoryServer({ clock }), new MemoryServer({ clock })];
    const [locks, other] = [await LockManager.quorum(servers), await LockManager.quorum(servers)];
    const lease = await locks.mutex('invoice:42').acquire();
    first.stop();
    await timers.advanceTimersByTimeAsync(3_600_000);
    expect(lease.isHeld).toBe(true);
    const next = other.mutex('invoice:42').acquire();
    await lease.release();
    await timers.advanceTimersByTimeAsync(2_000);
    expect((await next).fence).toBeGreaterThan(lease.fence);
  });

  test('a system time that is set back changes nothing', async () => {
    const lease = await new LockManager(new MemoryServer()).mutex('report').acquire();
    timers.setSystemTime(new Date('2020-01-01'));
    expect(lease.remaining).toBeGreaterThan(20_000);
    timers.advanceTimersByTime(30_000);
    expect(await lease.lost).toBe('expired');
  });
};
