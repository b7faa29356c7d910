/** The module's life, its leaders and its health indicator, in real applications of Nest. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import 'reflect-metadata';

import { Injectable, Logger, Module, Scope, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { HealthCheckService, TerminusModule } from '@nestjs/terminus';

import { type CustomConnection, isLeaseholdError, LockManager, type Term } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { Leader, LeaseholdModule, type LeaseholdModuleOptions, lockHealthToken, LockHealth } from './index.js';
import { VirtualTime } from '../testing/virtual-time.js';

type Imports = NonNullable<NonNullable<Parameters<typeof Module>[0]>['imports']>;

async function start(t: TestContext, imports: Imports, providers: Type[] = []) {
  class App {}
  Module({ imports, providers })(App);
  const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
  t.after(() => app.close());
  return app;
}

function moduleOn(server: MemoryServer, options: Partial<LeaseholdModuleOptions> = {}) {
  return LeaseholdModule.forRoot({ locks: new LockManager(server), ...options });
}

/** Resolves when the signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve())));
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate);
}

test('a_shutdown_closes_the_manager_and_then_the_connection', async (t) => {
  const locks = new LockManager(new MemoryServer());
  const lease = await locks.mutex('a').acquire();
  const app = await start(t, [LeaseholdModule.forRoot({ locks, drain: 0, afterClose: (closed) => order.push(closed, lease.isHeld) })]);
  const order: unknown[] = [];
  await app.close();
  assert.deepEqual(order, [{ lost: 1, unreleased: 0 }, false]);
  await assert.rejects(locks.mutex('a').acquire(), (error) => isLeaseholdError(error, 'closed'));
});

test('a_module_whose_manager_needs_other_providers', async (t) => {
  @Injectable()
  class Config {
    readonly prefix = 'shop:';
  }
  @Module({ providers: [Config], exports: [Config] })
  class ConfigModule {}
  const server = new MemoryServer();
  const useFactory = async ({ prefix }: Config) => ({ locks: new LockManager(server, { prefix }) });
  const app = await start(t, [LeaseholdModule.forRootAsync({ imports: [ConfigModule], inject: [Config], useFactory })]);
  await app.get(LockManager).mutex('order').run(async () => {
    assert.equal((await new LockManager(server).inspect('shop:order')).holders.length, 1);
  });
});

test('two_modules_with_one_name_and_something_else_than_a_manager_are_refused', async () => {
  const refuse = (...imports: Imports): Promise<unknown> => start({ after() {} } as never, imports);
  const named = (field: string) => (error: unknown): boolean => isLeaseholdError(error, 'invalid-option') && error.field === field;
  const server = new MemoryServer();
  await assert.rejects(refuse(moduleOn(server), moduleOn(server)), named('name'));
  await assert.rejects(refuse(moduleOn(server, { name: 'a' }), moduleOn(server, { name: 'a' })), named('name'));
  await assert.rejects(refuse(LeaseholdModule.forRoot({ locks: server as never })), named('locks'));
});

test('a_leader_leads_until_the_shutdown_and_the_next_process_follows_at_once', async (t) => {
  const terms: [number, Term][] = [];
  const makeApp = async (place: number) => {
    @Injectable()
    class Scheduler {
      readonly place = place;

      @Leader('scheduler', { value: `host ${place}` })
      async schedule(term: Term): Promise<void> {
        terms.push([this.place, term]);
        await aborted(term.signal);
      }
    }
    return start(t, [moduleOn(server)], [Scheduler]);
  };
  const server = new MemoryServer();
  const observer = new LockManager(server).election('scheduler').observe();
  const first = await makeApp(1);
  await until(() => terms.length === 1);
  await makeApp(2);
  assert.equal((await observer.next()).value?.value, 'host 1');
  await first.close();
  await until(() => terms.length === 2);
  assert.deepEqual(terms.map(([place]) => place), [1, 2]);
  assert.ok((terms[1]?.[1].fence ?? 0) > (terms[0]?.[1].fence ?? 0));
  assert.equal(terms[0]?.[1].isLeader, false);
  await observer.return();
});

test('a_leader_that_loses_its_term_leads_again', async (t) => {
  const terms: Term[] = [];
  @Injectable()
  class Scheduler {
    @Leader('scheduler')
    async schedule(term: Term): Promise<void> {
      terms.push(term);
      await aborted(term.signal);
      term.signal.throwIfAborted();
    }
  }
  const server = new MemoryServer();
  await start(t, [moduleOn(server)], [Scheduler]);
  await until(() => terms.length === 1);
  server.clock.advance('30s');
  await until(() => terms.length === 2);
  assert.ok(terms[0]?.signal.aborted && terms[1]?.isLeader);
});

test('an_error_of_a_leader_is_logged_and_it_campaigns_again_after_five_seconds', async (t) => {
  const time = new VirtualTime(t);
  const errors: unknown[][] = [];
  t.mock.method(Logger.prototype, 'error', (...words: unknown[]) => errors.push(words));
  const begun: number[] = [];
  @Injectable()
  class Scheduler {
    @Leader('scheduler')
    async schedule(term: Term): Promise<void> {
      begun.push(time.now);
      if (begun.length === 1) throw new Error('no schedule');
      await aborted(term.signal);
    }
  }
  await start(t, [moduleOn(new MemoryServer())], [Scheduler]);
  while (begun.length < 2) await time.pass(100);
  assert.ok((begun[1] ?? 0) - (begun[0] ?? 0) >= 5_000);
  assert.equal(errors.length, 1);
  assert.match(String(errors[0]?.[0]), /^Scheduler\.schedule leads 'scheduler' no more, and campaigns again in 5 s$/);
  assert.match(String(errors[0]?.[1]), /no schedule/);
});

test('a_leader_that_can_not_lead_alone_does_not_start', async () => {
  class Base {
    @Leader('scheduler')
    async schedule(): Promise<void> {}
  }
  @Injectable()
  class First extends Base {}
  @Injectable()
  class Second extends Base {}
  @Injectable({ scope: Scope.REQUEST })
  class PerRequest extends Base {}
  const refused = (error: unknown): boolean => isLeaseholdError(error, 'invalid-option') && error.field === '@Leader';
  for (const providers of [[First, Second], [PerRequest]]) {
    await assert.rejects(start({ after() {} } as never, [moduleOn(new MemoryServer())], providers), refused);
  }
  await assert.rejects(start({ after() {} } as never, [], [First]), /resolve dependencies of the First/);
  await assert.rejects(start({ after() {} } as never, [moduleOn(new MemoryServer(), { name: 'other' })], [First]), /resolve dependencies of the First/);
});

test('the_health_indicator_tells_whether_the_server_answers_also_to_terminus', async (t) => {
  const server = new MemoryServer();
  const down: CustomConnection = { call: async () => Promise.reject(new Error('redis://10.0.0.1 is down')) };
  const broken = LeaseholdModule.forRoot({ name: 'broken', locks: new LockManager(down, { responseTimeout: 10 }), drain: 0 });
  const app = await start(t, [moduleOn(server), broken, TerminusModule.forRoot({ logger: false })]);
  const [health, other] = [app.get(LockHealth), app.get<LockHealth>(lockHealthToken('broken'))];
  assert.deepEqual(await health.isHealthy('locks'), { locks: { status: 'up' } });
  assert.deepEqual(await other.isHealthy('others'), { others: { status: 'down', code: 'unreachable' } });
  const checks = await app.resolve(HealthCheckService);
  assert.equal((await checks.check([() => health.isHealthy('locks')])).status, 'ok');
  await assert.rejects(checks.check([() => health.isHealthy('locks'), () => other.isHealthy('others')]), (error: any) => {
    assert.deepEqual(error.getResponse().error, { others: { status: 'down', code: 'unreachable' } });
    return true;
  });
});

test('the_health_indicator_is_down_while_a_leader_ignores_its_loss_and_during_a_shutdown', async (t) => {
  let finish = (): void => {};
  let term: Term | undefined;
  @Injectable()
  class Scheduler {
    @Leader('scheduler')
    async schedule(given: Term): Promise<void> {
      term = given;
      await new Promise<void>((resolve) => (finish = resolve));
    }
  }
  const server = new MemoryServer();
  const app = await start(t, [moduleOn(server)], [Scheduler]);
  const health = app.get(LockHealth);
  await until(() => term !== undefined);
  assert.deepEqual(await health.isHealthy('locks', { grace: 0 }), { locks: { status: 'up' } });
  server.clock.advance('30s');
  await until(() => term?.signal.aborted === true);
  server.clock.advance('1s');
  assert.deepEqual(await health.isHealthy('locks', { grace: 0 }), { locks: { status: 'down', code: 'leading', leaders: ['scheduler'] } });
  await assert.rejects(health.isHealthy('locks', { grace: 'soon' as never }), (error) => isLeaseholdError(error, 'invalid-option'));
  finish();
  await app.close();
  finish();
  assert.deepEqual(await health.isHealthy('locks'), { locks: { status: 'down', code: 'closed' } });
});
