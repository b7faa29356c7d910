/** The order in which an application of Nest starts and ends: its leaders, its locks, and a module that has the connection. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import 'reflect-metadata';

import {
  type BeforeApplicationShutdown, Injectable, Module, type OnApplicationBootstrap, type OnApplicationShutdown, type OnModuleDestroy, type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis-6';

import { isLeaseholdError, LockManager, type Term } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { until } from '../testing/expect.js';
import { Server } from '../testing/server.js';
import { turns, VirtualTime } from '../testing/virtual-time.js';
import { Leader, LeaseholdModule, type LeaseholdModuleOptions } from './index.js';

/** A module that writes down when its hooks run. With a connection, it ends it in its last hook, and `LeaseholdModule` gets it from there. */
function recorded(log: string[], name: string, redis?: Redis, isGlobal = false) {
  @Injectable()
  class Recorder implements OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown {
    async onApplicationBootstrap(): Promise<void> {
      await turns();
      log.push(`${name} is started`);
    }

    onModuleDestroy(): void {
      log.push(`${name} is destroyed`);
    }

    beforeApplicationShutdown(): void {
      log.push(`${name} begins to close`);
    }

    onApplicationShutdown(): void {
      log.push(`${name} closes`);
      redis?.disconnect();
    }
  }
  class Recorded {}
  Module({ providers: [Recorder, { provide: Redis, useValue: redis }], exports: [Redis] })(Recorded);
  return { module: Recorded, global: isGlobal };
}

async function start(t: TestContext, imports: NonNullable<Parameters<typeof Module>[0]['imports']>, providers: Type[] = []) {
  class App {}
  Module({ imports, providers })(App);
  const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
  t.after(() => app.close());
  return app;
}

/** A class that leads until its term ends, and writes it down. */
function scheduler(log: string[], end = async (_term: Term): Promise<void> => {}): Type {
  @Injectable()
  class Scheduler {
    @Leader('scheduler')
    async schedule(term: Term): Promise<void> {
      log.push('leads');
      await new Promise<void>((resolve) => term.signal.addEventListener('abort', () => resolve()));
      await end(term);
      log.push('leads no more');
    }
  }
  return Scheduler;
}

for (const isGlobal of [false, true]) {
  const kind = isGlobal ? 'global' : 'plain';
  test(`the_locks_are_released_before_a_${kind}_module_closes_the_connection`, async (t) => {
    const server = await Server.start();
    t.after(() => server.kill());
    const redis = new Redis(server.url);
    const log: string[] = [];
    const owner = recorded(log, 'redis', redis, isGlobal);
    const useFactory = (connection: Redis): LeaseholdModuleOptions => ({
      locks: new LockManager(connection),
      afterClose: ({ lost, unreleased }) => log.push(`locks closed: ${lost} lost, ${unreleased} unreleased`),
    });
    const app = await start(t, [owner, LeaseholdModule.forRootAsync({ imports: [owner], inject: [Redis], useFactory })]);
    const lease = await app.get(LockManager).mutex('order').acquire();
    let closed = false;
    const closing = app.close().then(() => (closed = true));
    await until(async () => log.includes('redis begins to close'));
    await redis.ping();
    assert.ok(!closed && lease.isHeld, 'running work has time');
    await lease.release();
    await closing;
    assert.deepEqual(log.slice(-2), ['locks closed: 0 lost, 0 unreleased', 'redis closes']);
  });
}

test('a_leader_leads_only_after_all_modules_have_started_and_ends_before_they_do', async (t) => {
  const log: string[] = [];
  const server = new MemoryServer();
  const shared = recorded(log, 'global', undefined, true);
  const root = recorded(log, 'deep');
  const app = await start(t, [LeaseholdModule.forRoot({ locks: new LockManager(server) }), shared, root], [scheduler(log, async () => turns())]);
  await until(async () => log.includes('leads'));
  await app.close();
  assert.equal(log.indexOf('leads'), 2, log.join());
  assert.equal(log.indexOf('leads no more'), 3, log.join());
  const other = new LockManager(server);
  t.after(() => other.close());
  assert.equal((await other.inspect('scheduler')).holders.length, 0);
});

test('a_leader_that_does_not_end_has_the_time_of_the_drain_and_no_more', async (t) => {
  const time = new VirtualTime(t);
  const log: string[] = [];
  let finish = (): void => {};
  const stuck = new Promise<void>((resolve) => (finish = resolve));
  const module = LeaseholdModule.forRoot({ locks: new LockManager(new MemoryServer()), drain: '10s', afterClose: ({ lost }) => log.push(`${lost} lost`) });
  const app = await start(t, [module], [scheduler(log, () => stuck)]);
  await until(async () => log.includes('leads'));
  const began = time.now;
  await time.until(app.close());
  assert.ok(time.now - began >= 10_000 && time.now - began < 11_000, `${time.now - began}`);
  assert.deepEqual(log, ['leads', '1 lost']);
  finish();
});

test('a_module_with_a_drain_that_can_not_be_does_not_start', async () => {
  for (const drain of ['soon', -1, '31d', NaN] as never[]) {
    const locks = new LockManager(new MemoryServer());
    const started = start({ after() {} } as never, [LeaseholdModule.forRoot({ locks, drain })]);
    await assert.rejects(started, (error) => isLeaseholdError(error, 'invalid-option') && error.field === 'drain');
  }
  const afterClose = 'redis.disconnect()' as never;
  const started = start({ after() {} } as never, [LeaseholdModule.forRoot({ locks: new LockManager(new MemoryServer()), afterClose })]);
  await assert.rejects(started, (error) => isLeaseholdError(error, 'invalid-option') && error.field === 'afterClose');
});
