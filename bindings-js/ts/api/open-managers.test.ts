/** A program that makes a manager for each request and never closes it is warned. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';

import { LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';

/** The warnings about managers until now. Node emits them after the call. */
function watch(t: TestContext): () => Promise<string[]> {
  const found: string[] = [];
  const note = (warning: Error & { code?: string }): void => void (warning.name === 'LeaseholdManagersWarning' && found.push(`${warning.code}: ${warning.message}`));
  process.on('warning', note);
  t.after(() => process.off('warning', note));
  return async () => (await new Promise(setImmediate), found);
}

const connection = (): { call(): Promise<never> } => ({ call: async () => assert.fail('something was sent') });

test('a_hundred_open_managers_on_one_connection_are_one_warning', async (t) => {
  const [warnings, shared] = [watch(t), connection()];
  const make = (count: number) => Array.from({ length: count }, () => new LockManager(shared));
  const managers = make(99);
  for (let count = 0; count < 99; count++) new LockManager(connection());
  assert.deepEqual(await warnings(), []);
  managers.push(...make(300));
  const [warning = '', ...more] = await warnings();
  assert.match(warning, /^LEASEHOLD_MANY_MANAGERS: 100 lock managers are open on one connection.*one for each process/);
  assert.deepEqual(more, []);
  await Promise.all(managers.map((manager) => manager.close()));
});

test('managers_that_are_closed_and_those_of_a_test_are_no_warning', async (t) => {
  const [warnings, shared, server] = [watch(t), connection(), new MemoryServer()];
  for (let request = 0; request < 300; request++) {
    const locks = new LockManager(shared);
    await locks.close();
    await locks.close();
  }
  for (let count = 0; count < 300; count++) new LockManager(server);
  const open = Array.from({ length: 99 }, () => new LockManager(shared));
  assert.deepEqual(await warnings(), []);
  await Promise.all(open.map((manager) => manager.close()));
});
