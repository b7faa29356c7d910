// Under Vitest's fake timers with their default settings.
import { LockManager } from 'leasehold';
import { MemoryServer } from 'leasehold/testing';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('a lease ends and a waiter gets the lock when the fake clock is advanced', async () => {
  const server = new MemoryServer();
  const [holder, waiter] = [new LockManager(server), new LockManager(server)];
  const heard = vi.fn();
  holder.on('lost', heard);
  const lease = await holder.mutex('report').acquire();
  const next = waiter.mutex('report').acquire();
  while ((await holder.inspect('report')).waiters.length === 0);
  vi.advanceTimersByTime(30_000);
  expect(await lease.lost).toBe('expired');
  expect(heard).toHaveBeenCalledTimes(1);
  expect((await next).fence).toBeGreaterThan(lease.fence);
});

test('a lease is renewed for hours when promises run in between, and is lost when its key is gone', async () => {
  const server = new MemoryServer();
  const lease = await new LockManager(server).mutex('report').acquire();
  await vi.advanceTimersByTimeAsync(3 * 3_600_000);
  expect(lease.isHeld).toBe(true);
  server.expire('report');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await lease.lost).toBe('gone');
});

test('a late reply, a lost one and a wait take fake time', async () => {
  const server = new MemoryServer();
  const [locks, other] = [new LockManager(server), new LockManager(server)];
  server.delay('1s');
  const late = locks.mutex('report').acquire();
  await vi.advanceTimersByTimeAsync(5_000);
  await late;
  server.delay(0);
  server.dropNextReply();
  const lost = locks.mutex('page').acquire();
  await vi.advanceTimersByTimeAsync(5_000);
  await lost;
  const busy = expect(other.mutex('report').acquire()).rejects.toMatchObject({ code: 'busy' });
  await vi.advanceTimersByTimeAsync(60_000);
  await busy;
});
