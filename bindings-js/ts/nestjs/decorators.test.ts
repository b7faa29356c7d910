/** Methods with `@Locked` and `@Once` in real applications of Nest, on a server in memory. */

import assert from 'node:assert/strict';
import { mock, test, type TestContext } from 'node:test';
import 'reflect-metadata';

import { Controller, Get, Inject, Injectable, Module, Post, Scope, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

import { isLeaseholdError, type Lease, LockManager } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { currentLease, LeaseholdModule, Locked, lockManagerToken, Once } from './index.js';

/** A promise and its end. */
function gate(): { readonly opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

/** Starts an application with these providers, and closes it after the test. */
async function start(t: TestContext, providers: Type[], options: { server?: MemoryServer; controllers?: Type[]; more?: object[] } = {}) {
  const { server = new MemoryServer(), controllers = [], more = [] } = options;
  class App {}
  Module({ imports: [LeaseholdModule.forRoot({ locks: new LockManager(server) }), ...(more as Type[])], providers, controllers })(App);
  const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
  t.after(() => app.close());
  const others = new LockManager(server);
  t.after(() => others.close());
  return { app, server, others };
}

/** Resolves when a client waits for the lock. */
async function waited(locks: LockManager, name: string): Promise<void> {
  while ((await locks.inspect(name)).waiters.length === 0) await new Promise(setImmediate);
}

test('a_method_runs_under_a_lock_named_by_its_arguments_with_this_and_the_lease', async (t) => {
  @Injectable()
  class Orders {
    readonly currency = 'EUR';

    @Locked('order:{0}:{1.id}')
    async pay(id: number, customer: { id: string }, amount = 5): Promise<string> {
      await new Promise(setImmediate);
      const { name, fence, isHeld } = currentLease();
      return `${name} ${fence > 0} ${isHeld} ${amount} ${this.currency} ${customer.id} ${id}`;
    }
  }
  const { app, others } = await start(t, [Orders]);
  const orders = app.get(Orders);
  assert.equal(await orders.pay(7, { id: 'a' }), 'order:7:a true true 5 EUR a 7');
  assert.equal((await others.inspect('order:7:a')).holders.length, 0, 'it is released');
  assert.equal(orders.pay.name, 'pay');
  assert.equal(orders.pay.length, 2);
});

test('two_calls_with_one_name_run_one_after_the_other_and_with_two_names_together', async (t) => {
  const running = new Set<string>();
  let most = 0;
  @Injectable()
  class Orders {
    @Locked((id: string) => `order:${id}`)
    async pay(id: string, call: string): Promise<void> {
      assert.ok(![...running].some((other) => other.startsWith(id)));
      running.add(`${id} ${call}`);
      most = Math.max(most, running.size);
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      running.delete(`${id} ${call}`);
    }
  }
  const { app } = await start(t, [Orders]);
  const orders = app.get(Orders);
  await Promise.all([orders.pay('1', 'a'), orders.pay('1', 'b'), orders.pay('2', 'a'), orders.pay('2', 'b')]);
  assert.equal(most, 2);
});

test('a_key_function_gets_this_and_may_return_several_names', async (t) => {
  @Injectable()
  class Accounts {
    readonly prefix = 'account';

    @Locked(function (this: Accounts, from: number, to: number) {
      return [`${this.prefix}:${from}`, `${this.prefix}:${to}`];
    })
    async transfer(_from: number, _to: number): Promise<string[]> {
      return [...currentLease().fences.keys()].sort();
    }
  }
  const { app } = await start(t, [Accounts]);
  assert.deepEqual(await app.get(Accounts).transfer(2, 1), ['account:1', 'account:2']);
});

test('other_locks_than_a_mutex', async (t) => {
  const [both, ended] = [gate(), gate()];
  let inside = 0;
  @Injectable()
  class Tenants {
    @Locked('tenant:{0}', { lock: (locks, name) => locks.semaphore(name, { limit: 2 }) })
    async job(_tenant: string): Promise<void> {
      if (++inside === 2) both.open();
      await ended.opened;
    }
  }
  const { app } = await start(t, [Tenants]);
  const tenants = app.get(Tenants);
  const jobs = [tenants.job('a'), tenants.job('a')];
  await both.opened;
  ended.open();
  await Promise.all(jobs);
});

test('an_error_of_the_method_is_passed_on_and_the_lock_is_free', async (t) => {
  const failure = new Error('no stock');
  @Injectable()
  class Orders {
    @Locked('order')
    async pay(): Promise<void> {
      throw failure;
    }

    // Untyped code can have a method that is not async.
    // @ts-expect-error its callers get a promise
    @Locked('order')
    now(): void {
      throw failure;
    }
  }
  const { app, others } = await start(t, [Orders]);
  await assert.rejects(app.get(Orders).pay(), (error) => error === failure);
  await assert.rejects(app.get(Orders).now() as unknown as Promise<void>, (error) => error === failure);
  assert.ok(await others.mutex('order').tryAcquire());
});

test('a_key_that_throws_or_has_no_value_rejects_the_call_and_takes_no_lock', async (t) => {
  const failure = new Error('no id');
  const runs = mock.fn();
  @Injectable()
  class Orders {
    @Locked(() => {
      throw failure;
    })
    async thrown(): Promise<void> {
      runs();
    }

    @Locked('order:{0.id}')
    async missing(_order?: { id?: object | string }): Promise<void> {
      runs();
    }

    @Locked((async () => 'order') as never)
    async promised(): Promise<void> {
      runs();
    }
  }
  const { app } = await start(t, [Orders]);
  const orders = app.get(Orders);
  await assert.rejects(orders.thrown(), (error) => error === failure);
  for (const order of [undefined, {}, { id: {} }]) {
    await assert.rejects(orders.missing(order), (error) => isLeaseholdError(error, 'invalid-option') && error.field === 'key' && /'order:\{0\.id\}'.*\{0\.id\} is/.test(error.message));
  }
  await assert.rejects(orders.promised(), (error) => isLeaseholdError(error, 'invalid-option'));
  assert.equal(runs.mock.callCount(), 0);
});

test('a_field_of_an_argument_may_have_any_name_and_a_wrong_place_is_refused_when_the_class_is_defined', async (t) => {
  @Injectable()
  class Orders {
    @Locked('{shop}:{0.user-id}:{0.items.0}:{1.$n}')
    async pay(_order: object, _more: object): Promise<string> {
      return currentLease().name;
    }
  }
  const { app } = await start(t, [Orders]);
  assert.equal(await app.get(Orders).pay({ 'user-id': 7, items: ['a'] }, { $n: 3n }), '{shop}:7:a:3');
  for (const key of ['order:{0[id]}', 'order:{0.}', 'order:{0..id}', 'order:{0.id', 'order:{ 0 }', 'order:{0}:{1 }', 'order:{0.a b}', '{0id}', 7, undefined, null]) {
    for (const decorate of [Locked, Once]) {
      const refused = (error: unknown): boolean => isLeaseholdError(error, 'invalid-option') && error.field === 'key';
      assert.throws(() => decorate(key as never, { keep: '1h' }), refused, String(key));
    }
  }
});

test('a_lost_lock_aborts_the_signal_and_rejects_the_call', async (t) => {
  const begun = gate();
  let lease: Lease | undefined;
  @Injectable()
  class Orders {
    @Locked('order')
    async pay(): Promise<string> {
      lease = currentLease();
      const { signal } = lease;
      begun.open();
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      return 'paid';
    }
  }
  const { app, server } = await start(t, [Orders]);
  const paid = app.get(Orders).pay();
  await begun.opened;
  server.clock.advance('30s');
  await assert.rejects(paid, (error) => isLeaseholdError(error, 'lost') && error.reason === 'expired');
  assert.equal(lease?.isHeld, false);
});

test('a_shutdown_refuses_callers_that_wait_and_lets_the_method_that_runs_finish', async (t) => {
  const [begun, finish] = [gate(), gate()];
  @Injectable()
  class Orders {
    @Locked('order')
    async pay(): Promise<string> {
      begun.open();
      await finish.opened;
      return `paid ${currentLease().isHeld}`;
    }
  }
  const { app, others } = await start(t, [Orders]);
  const orders = app.get(Orders);
  const paid = orders.pay();
  await begun.opened;
  const second = assert.rejects(orders.pay(), (error) => isLeaseholdError(error, 'closed'));
  const closing = app.close();
  await second;
  finish.open();
  assert.equal(await paid, 'paid true');
  await closing;
  assert.equal((await others.inspect('order')).holders.length, 0);
});

test('a_caller_that_waits_for_another_process_fails_with_closed_at_a_shutdown', async (t) => {
  @Injectable()
  class Orders {
    @Locked('order', { wait: 'forever' })
    async pay(): Promise<void> {}
  }
  const { app, others } = await start(t, [Orders]);
  const lease = await others.mutex('order').acquire();
  const refused = assert.rejects(app.get(Orders).pay(), (error) => isLeaseholdError(error, 'closed'));
  await waited(others, 'order');
  await app.close();
  await refused;
  await lease.release();
});

test('an_application_without_the_module_does_not_start_and_the_error_names_the_class', async () => {
  @Injectable()
  class Orders {
    @Locked('order')
    async pay(): Promise<void> {}
  }
  @Module({ providers: [Orders] })
  class App {}
  await assert.rejects(NestFactory.createApplicationContext(App, { logger: false, abortOnError: false }), /resolve dependencies of the Orders.*/s);
});

test('an_instance_that_nest_has_not_made_has_no_manager', async (t) => {
  @Injectable()
  class Orders {
    @Locked('order')
    async pay(): Promise<void> {}
  }
  const { app } = await start(t, [Orders]);
  const { pay } = app.get(Orders);
  for (const call of [new Orders().pay(), pay.call(undefined as never)]) {
    await assert.rejects(call, (error) => isLeaseholdError(error, 'invalid-option') && error.message.includes('Orders.pay'));
  }
});

test('a_decorator_refuses_what_is_no_method_of_an_instance', () => {
  class Orders {
    static async pay(): Promise<void> {}
  }
  const refused = (error: unknown): boolean => isLeaseholdError(error, 'invalid-option') && /pay/.test(error.message);
  assert.throws(() => Locked('a')(Orders, 'pay', Object.getOwnPropertyDescriptor(Orders, 'pay') as never), refused);
  assert.throws(() => Locked('a')(Orders.prototype, 'pay', undefined as never), refused);
});

test('two_modules_have_their_own_managers', async (t) => {
  const audit = new MemoryServer();
  @Injectable()
  class Orders {
    @Inject(LockManager) readonly locks!: LockManager;
    @Inject(lockManagerToken('audit')) readonly others!: LockManager;

    @Locked('order')
    async pay(): Promise<boolean[]> {
      return this.held();
    }

    @Locked('order', { manager: 'audit' })
    async check(): Promise<boolean[]> {
      return this.held();
    }

    private async held(): Promise<boolean[]> {
      return Promise.all([this.locks, this.others].map(async (locks) => (await locks.inspect('order')).holders.length === 1));
    }
  }
  const more = [LeaseholdModule.forRootAsync({ name: 'audit', useFactory: async () => ({ locks: new LockManager(audit) }) })];
  const { app } = await start(t, [Orders], { more });
  assert.deepEqual(await app.get(Orders).pay(), [true, false]);
  assert.deepEqual(await app.get(Orders).check(), [false, true]);
});

test('a_method_that_overrides_another_one_is_locked_only_with_a_decorator_of_its_own', async (t) => {
  const lockOf = (): string => {
    try {
      return currentLease().name;
    } catch (error) {
      return isLeaseholdError(error, 'invalid-option') ? 'none' : String(error);
    }
  };
  class Base {
    @Locked('base')
    async inherited(): Promise<string> {
      return lockOf();
    }

    @Locked('base')
    async overridden(): Promise<string> {
      return lockOf();
    }

    @Locked('base')
    async called(): Promise<string> {
      return lockOf();
    }
  }
  @Injectable()
  class Sub extends Base {
    override async overridden(): Promise<string> {
      return lockOf();
    }

    @Locked('sub')
    override async called(): Promise<string> {
      return `${lockOf()}, ${await super.called()}, ${lockOf()}`;
    }
  }
  const { app } = await start(t, [Sub]);
  const sub = app.get(Sub);
  assert.deepEqual([await sub.inherited(), await sub.overridden(), await sub.called()], ['base', 'none', 'sub, base, sub']);
});

test('routes_and_request_scoped_classes_work_whichever_decorator_is_first', async (t) => {
  @Controller('orders')
  class Routes {
    @Post('pay')
    @Locked('order')
    async first(): Promise<void> {}

    @Locked('order')
    @Get('look')
    async second(): Promise<void> {}
  }
  @Injectable({ scope: Scope.REQUEST })
  class Orders {
    @Locked('order')
    async pay(): Promise<string> {
      return currentLease().name;
    }
  }
  const { app } = await start(t, [Orders], { controllers: [Routes] });
  const routes = Routes.prototype;
  assert.deepEqual([routes.first, routes.second].map((route) => Reflect.getMetadata('path', route)), ['pay', 'look']);
  assert.equal(await (await app.resolve(Orders)).pay(), 'order');
});

test('a_once_runs_in_one_of_two_applications_and_both_get_the_result', async (t) => {
  const runs = mock.fn();
  @Injectable()
  class Reports {
    @Once('report:{0}', { keep: '36h' })
    async make(day: string): Promise<{ rows: number; day: string }> {
      runs();
      assert.equal(currentLease().name, `report:${day}`);
      return { rows: 3, day };
    }
  }
  const server = new MemoryServer();
  const apps = await Promise.all([start(t, [Reports], { server }), start(t, [Reports], { server })]);
  const results = await Promise.all(apps.map(({ app }) => app.get(Reports).make('monday')));
  assert.deepEqual(results, [{ rows: 3, day: 'monday' }, { rows: 3, day: 'monday' }]);
  assert.equal(runs.mock.callCount(), 1);
});

test('a_once_that_fails_stores_nothing_and_the_next_call_runs', async (t) => {
  let runs = 0;
  @Injectable()
  class Reports {
    @Once('report', { keep: '36h' })
    async make(): Promise<number> {
      if (++runs === 1) throw new Error('no rows');
      return runs;
    }
  }
  const { app } = await start(t, [Reports]);
  await assert.rejects(app.get(Reports).make(), /no rows/);
  assert.equal(await app.get(Reports).make(), 2);
  assert.equal(await app.get(Reports).make(), 2);
});
