/**
 * A manager whose worker renews leases: real threads and a real server. No test depends on how fast a thread is: `tests/e2e/node/full` has
 * those that do.
 */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';

import { isLeaseholdError, type Lease, LockManager, type LockManagerOptions, Owner, type WorkerEvent } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { caught, until } from '../testing/expect.js';
import { Fleet, unique } from '../testing/fleet.js';
import { PATIENCE_MS, RENEWED_SOON } from '../testing/generous.js';
import { directory } from '../testing/server.js';

const fleet = await Fleet.start();
let modules = 0;
const ADDRESS = `${fleet.server.port}, '127.0.0.1', { retryStrategy: () => 20 }`;
const CLIENT = moduleOf(`export default new Redis(${ADDRESS}).on('error', () => {});`);

/** Writes a module, and returns its URL. */
function moduleOf(text: string): URL {
  const file = join(directory, `module-${++modules}.mjs`);
  writeFileSync(file, `import { Redis } from ${JSON.stringify(import.meta.resolve('ioredis-6'))};\n${text}\n`);
  return pathToFileURL(file);
}

/** A manager with a worker. */
function manager(t: TestContext, worker: URL | string = CLIENT, options: LockManagerOptions = {}): { locks: LockManager; events: WorkerEvent[]; lost: unknown[] } {
  const locks = fleet.manager({ renewIn: { worker }, ...options });
  const [events, lost]: [WorkerEvent[], unknown[]] = [[], []];
  locks.on('worker', (event) => events.push(event));
  locks.on('lost', (event) => lost.push(event));
  t.after(() => locks.close());
  return { locks, events, lost };
}

/** Blocks the event loop until another thread has seen that a condition holds, `look` in JavaScript. */
function blockUntil(t: TestContext, look: string, ...keys: string[]): void {
  const seen = new Int32Array(new SharedArrayBuffer(4));
  const watcher = new Worker(`
    const { Redis } = require('ioredis-6');
    const { workerData: { seen, keys, port } } = require('node:worker_threads');
    const redis = new Redis(port, '127.0.0.1');
    const last = new Map();
    const isSeen = ${look};
    const watch = async () => {
      if (!(await isSeen())) return setTimeout(watch, 20);
      Atomics.store(seen, 0, 1);
      Atomics.notify(seen, 0);
    };
    watch();
  `, { eval: true, workerData: { seen, keys, port: fleet.server.port } });
  t.after(() => watcher.terminate());
  assert.notEqual(Atomics.wait(seen, 0, 0, PATIENCE_MS), 'timed-out');
}

/** Blocks the event loop until a condition holds. */
function blockWhile(condition: () => boolean): void {
  const deadline = performance.now() + PATIENCE_MS;
  const memory = new Int32Array(new SharedArrayBuffer(4));
  while (condition()) {
    assert.ok(performance.now() < deadline, 'the event loop is blocked for too long');
    Atomics.wait(memory, 0, 0, 20);
  }
}

const ALL_GONE = 'async () => (await redis.exists(...keys)) === 0';

test('the_worker_renews_leases_of_every_kind_while_the_event_loop_is_blocked_and_the_manager_knows_it', async (t) => {
  const { locks, events, lost } = manager(t, CLIENT, { ttl: RENEWED_SOON });
  const other = fleet.manager();
  const names = Array.from({ length: 9 }, () => unique());
  const [mutex, page, passed, read, permits, own, first, second, handed] = names as [string, string, string, string, string, string, string, string, string];
  const upgraded = await locks.readWrite(page).read().acquire();
  await upgraded.upgrade();
  const detached = await (await other.mutex(passed).acquire()).detach({ for: '1m' });
  const leases = [
    await locks.mutex(mutex).acquire(),
    upgraded,
    await locks.mutex(passed).adopt(detached),
    await locks.readWrite(read).read().acquire(),
    await locks.semaphore(permits, { limit: 3 }).acquire(),
    await locks.reentrant(own, new Owner()).acquire(),
    await locks.multi([first, second]).acquire(),
    await handedOver(locks, handed),
  ];
  const least = leases.map(({ remaining }) => remaining);
  const isRenewed = ({ remaining }: Lease, at: number): boolean => {
    const before = least[at] ?? 0;
    least[at] = Math.min(before, remaining);
    return remaining > before + 1_000;
  };
  // No reply of the server arrives meanwhile.
  const open = new Set(leases);
  blockWhile(() => {
    leases.forEach((lease, at) => isRenewed(lease, at) && open.delete(lease));
    return open.size > 0;
  });
  assert.deepEqual(await Promise.all(leases.map((lease) => lease.verify())), leases.map(() => true));
  // A release right after a block frees the lock for good.
  for (const lease of leases) assert.equal(await lease.release(), 'released');
  await (await other.mutex(mutex).acquire()).release();
  assert.equal(await fleet.isThere(mutex), false);
  assert.deepEqual([events, lost], [[], []]);
});

async function handedOver(locks: LockManager, name: string): Promise<Lease> {
  const first = await locks.mutex(name).acquire();
  const next = locks.mutex(name).acquire();
  await first.release();
  return next;
}

test('max_hold_ends_a_lease_while_the_event_loop_is_blocked', async (t) => {
  const { locks, lost } = manager(t);
  const name = unique();
  const lease = await locks.mutex(name).acquire({ ttl: 1_000, maxHold: 2_000 });
  blockUntil(t, ALL_GONE, name);
  // On a slow machine, the worker may have renewed it too late.
  assert.match(await lease.lost, /max-hold|expired/);
  assert.equal(lost.length, 1);
});

test('a_lease_that_is_fixed_shortened_or_no_longer_renewed_ends_while_the_event_loop_is_blocked', async (t) => {
  const { locks } = manager(t);
  const names = [unique(), unique(), unique(), unique()] as const;
  const fixed = await locks.mutex(names[0]).acquire({ ttl: 500, renew: false });
  const shortened = await locks.mutex(names[1]).acquire();
  await shortened.shorten(500);
  const stopped = await locks.mutex(names[2]).acquire({ ttl: 500 });
  stopped.stopRenewing();
  await (await locks.mutex(names[3]).acquire()).detach({ for: 500 });
  blockUntil(t, ALL_GONE, ...names);
  assert.deepEqual([fixed.isHeld, shortened.isHeld, stopped.isHeld], [false, false, false]);
});

test('a_worker_that_dies_is_told_and_started_again_and_the_locks_go_on', async (t) => {
  const { locks, events, lost } = manager(t, moduleOf(`
    setTimeout(() => process.exit(7), 50);
    export default { call: async () => ['renewed', 0, 0, 1, 100, -1, 0] };
  `));
  const lease = await locks.mutex(unique()).acquire();
  await until(async () => events.length >= 3);
  assert.deepEqual(events.slice(0, 3).map(({ works }) => works), [false, true, false]);
  assert.ok(isLeaseholdError(events[0]?.error, 'unreachable'), String(events[0]?.error));
  assert.match(String(events[0]?.error), /exited with code 7/);
  assert.ok(lease.isHeld);
  assert.equal(await lease.release(), 'released');
  assert.deepEqual(lost, []);
});

const UNUSABLE = {
  'that_throws': [`throw new Error('no config');`, /no config/],
  'without_a_default_export': ['', /has no default export/],
  'whose_client_is_none': ['export default 7;', /must be an ioredis/],
  'whose_function_rejects': [`export default async () => { throw new Error('no password'); };`, /no password/],
  'that_is_no_javascript': ['export default (', /Unexpected/],
} as const;

for (const [what, [text, problem]] of Object.entries(UNUSABLE)) {
  test(`a_module_${what}_is_told_and_the_locks_work_without_it`, async (t) => {
    const { locks, events } = manager(t, moduleOf(text));
    const lease = await locks.mutex(unique()).acquire();
    await until(async () => events.length > 0);
    const [{ works, error }] = events as [WorkerEvent];
    assert.equal(works, false);
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'renewIn', String(error));
    assert.match(error.message, problem);
    assert.equal(await lease.release(), 'released');
    assert.equal(events.length, 1);
  });
}

test('a_module_that_leads_to_another_server_is_told_with_the_first_lease', async (t) => {
  const other = await Fleet.start((close) => t.after(close));
  const { locks, events, lost } = manager(t, moduleOf(`export default () => new Redis(${other.server.port});`));
  const lease = await locks.mutex(unique()).acquire();
  await until(async () => events.length > 0);
  assert.ok(isLeaseholdError(events[0]?.error, 'invalid-option'));
  assert.match(String(events[0]?.error), /another server/);
  assert.ok(lease.isHeld);
  assert.deepEqual(lost, []);
});

test('a_failure_that_nobody_listens_for_is_a_warning', async (t) => {
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve));
  const locks = fleet.manager({ renewIn: { worker: moduleOf(`throw new Error('no config');`) } });
  t.after(() => locks.close());
  const warning = await warned;
  assert.equal(warning.name, 'LeaseholdWorkerWarning');
  assert.match(warning.message, /no config/);
});

test('what_is_no_module_is_refused_when_the_manager_is_made', async () => {
  const bad: [unknown, RegExp][] = [
    ['./redis.js', /new URL\('\.\/redis\.js', import\.meta\.url\)/],
    ['redis', /give new URL/],
    ['https://example.com/redis.js', /give new URL/],
    [new URL('https://example.com/redis.js'), /give new URL/],
    [7, /is 7|`worker` 7/],
    [undefined, /give new URL/],
    [join(directory, 'nothing.js'), /no such file/],
    ['file:///', /no such file/],
  ];
  for (const [worker, problem] of bad) {
    const error = await caught((async () => new LockManager(fleet.client(), { renewIn: { worker } as never }))());
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'renewIn', `${String(worker)}: ${String(error)}`);
    assert.match(error.message, problem);
  }
  for (const renewIn of ['./redis.js', null, 7, { worker: CLIENT, more: 1 }]) {
    const error = await caught((async () => new LockManager(fleet.client(), { renewIn: renewIn as never }))());
    assert.ok(isLeaseholdError(error, 'invalid-option') && error.field === 'renewIn', String(error));
  }
});

test('a_path_and_the_text_of_a_url_name_a_module_too', async (t) => {
  for (const worker of [CLIENT.href, decodeURI(CLIENT.pathname)]) {
    const { locks, events } = manager(t, worker);
    await (await locks.mutex(unique()).acquire()).release();
    assert.deepEqual(events, []);
  }
});

test('a_quorum_a_server_in_memory_and_a_host_without_threads_do_not_support_it', async (t) => {
  const renewIn = { worker: CLIENT };
  const clients = [fleet.client(), fleet.client(), fleet.client()];
  assert.ok(isLeaseholdError(await caught(LockManager.quorum(clients, { renewIn })), 'unsupported'));
  assert.ok(isLeaseholdError(await caught((async () => new LockManager(new MemoryServer(), { renewIn }))()), 'unsupported'));
  t.mock.method(process, 'getBuiltinModule', () => undefined);
  const error = await caught((async () => new LockManager(fleet.client(), { renewIn }))());
  assert.ok(isLeaseholdError(error, 'unsupported'));
  assert.match(error.message, /node:worker_threads/);
});

test('a_host_that_refuses_to_start_a_worker_does_not_support_it_and_may_start_one_later', async (t) => {
  const worker = moduleOf(`export default new Redis(${ADDRESS});`);
  const { getBuiltinModule } = process;
  class Refused {
    constructor() {
      throw new Error('not permitted');
    }
  }
  const refuses = t.mock.method(process, 'getBuiltinModule', (id: string) => (id === 'node:worker_threads' ? { Worker: Refused } : getBuiltinModule(id)));
  const error = await caught((async () => new LockManager(fleet.client(), { renewIn: { worker } }))());
  assert.ok(isLeaseholdError(error, 'unsupported'));
  assert.match(error.message, /not permitted/);
  refuses.mock.restore();
  const { locks, events } = manager(t, worker);
  await (await locks.mutex(unique()).acquire()).release();
  assert.deepEqual(events, []);
});

test('managers_that_name_one_module_share_its_worker_and_it_ends_with_the_last_of_them', async (t) => {
  const name = `client-${unique()}`;
  const module = moduleOf(`export default () => new Redis(${ADDRESS.replace('{', `{ connectionName: '${name.replace(':', '-')}',`)});`);
  const connections = async (): Promise<number> => String(await fleet.redis.client('LIST')).split(`name=${name.replace(':', '-')} `).length - 1;
  const [first, second] = [manager(t, module).locks, manager(t, module).locks];
  await (await first.mutex(unique()).acquire()).release();
  await (await second.mutex(unique()).acquire()).release();
  await until(async () => (await connections()) === 1);
  await first.close();
  const lease = await second.mutex(unique()).acquire();
  assert.equal(await connections(), 1);
  await lease.release();
  await second.close();
  await until(async () => (await connections()) === 0);
});
