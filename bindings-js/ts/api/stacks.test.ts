/** An error's stack leads to the caller's line that awaited the call. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, type Lock, LockManager } from '../index.js';
import { caught } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { GENEROUS, IMPATIENT } from '../testing/generous.js';

const fleet = await Fleet.start();

async function invoiceJob(call: () => Promise<unknown>): Promise<void> {
  await call();
}

async function assertLeadsHere(call: () => Promise<unknown>): Promise<void> {
  const error = await caught(invoiceJob(call));
  assert.ok(isLeaseholdError(error), String(error));
  const [head, first, ...rest] = (error.stack ?? '').split('\n').filter((line) => !line.includes('node:internal'));
  assert.ok(head?.startsWith(`${error.name}: `), head);
  assert.match([first, ...rest].join('\n'), /at (?:async )?invoiceJob \(.*stacks\.test\.ts/, error.code);
  // Above it there are only the methods that were called. A refused option also has the lines that check it.
  if (error.code !== 'invalid-option') assert.match(first ?? '', /at async (?:Client|Lock|Lease|LockManager|Promise|invoiceJob|request)/, error.stack);
}

test('a_wait_in_vain_leads_to_its_caller', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  const ways: ((lock: Lock) => Promise<unknown>)[] = [
    (lock) => lock.acquire({ wait: 50 }),
    (lock) => lock.run(() => {}, { wait: 50 }),
    (lock) => Promise.all([lock.acquire({ wait: 50 })]),
  ];
  for (const way of ways) {
    await assertLeadsHere(() => way(others.mutex(name)));
    await assertLeadsHere(() => way(locks.mutex(name)));
  }
  await assertLeadsHere(() => others.request(name, { wait: 50 }, () => {}));
  await lease.release();
});

test('a_call_of_a_lease_leads_to_its_caller', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const [lease, reader] = await Promise.all([locks, others].map((manager) => manager.readWrite(name).read().acquire()));
  await assertLeadsHere(() => lease!.upgrade());
  await assertLeadsHere(() => locks.mutex(name).tryAcquire({ ttl: 1 }));
  await Promise.all([lease!.release(), reader!.release()]);
});

test('what_the_server_or_the_connection_says_leads_to_its_caller', async () => {
  const locks = new LockManager({ call: async () => Promise.reject(new Error('ERR enough')) });
  await assertLeadsHere(() => locks.mutex('a').acquire());
  await assertLeadsHere(() => locks.mutex('a').tryAcquire());
  await assertLeadsHere(() => locks.inspect('a'));
  const waiting = assertLeadsHere(() => new LockManager({ call: () => new Promise(() => {}) }, IMPATIENT).mutex('a').tryAcquire());
  await Promise.all([waiting, locks.close()]);
});

test('a_wait_that_the_end_of_its_manager_ends_leads_to_its_caller', async () => {
  const [locks, others, name] = [fleet.manager(), fleet.manager(), unique()];
  const lease = await others.mutex(name).acquire();
  const waiting = assertLeadsHere(() => locks.mutex(name).acquire());
  await fleet.waiting(name, 1);
  await locks.close();
  await waiting;
  await assertLeadsHere(() => locks.mutex(name).acquire());
  await lease.release();
});

test('a_reason_of_the_users_own_is_left_as_it_is', async () => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  const controller = new AbortController();
  const reason = new Error('no more');
  const { stack } = reason;
  const waiting = caught(locks.mutex(name).acquire({ signal: controller.signal }));
  controller.abort(reason);
  assert.equal(await waiting, reason);
  assert.equal(reason.stack, stack);
  await lease.release();
});

test('a_stack_that_leads_nowhere_keeps_what_it_has', async () => {
  const locks = new LockManager({ call: async () => Promise.reject(new Error('ERR enough')) }, GENEROUS);
  const error = await new Promise<unknown>((resolve) => void locks.mutex('a').acquire().then(undefined, resolve));
  assert.match((error as Error).stack ?? '', /\n\s+at (?!.*node:internal)/);
  await locks.close();
});
