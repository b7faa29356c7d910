/** Methods with `@Leader`: which instances lead, and what happens when a method ends. */

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import 'reflect-metadata';

import { Inject, Injectable, Logger, Module, type Provider, Scope } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

import { isLeaseholdError, LockManager, type Term } from '../index.js';
import { MemoryServer } from '../memory/index.js';
import { turns, VirtualTime } from '../testing/virtual-time.js';
import { Leader, LeaseholdModule } from './index.js';

async function start(t: Pick<TestContext, 'after'>, server: MemoryServer, providers: Provider[]) {
  class App {}
  Module({ imports: [LeaseholdModule.forRoot({ locks: new LockManager(server) })], providers })(App);
  const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
  t.after(() => app.close());
  return app;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await turns();
}

/** What Nest's logger gets. */
function logged(t: TestContext): string[] {
  const words: string[] = [];
  for (const level of ['warn', 'error'] as const) t.mock.method(Logger.prototype, level, (text: unknown) => words.push(`${level}: ${text}`));
  return words;
}

test('a_method_that_passes_on_the_abort_of_its_signal_ends_without_an_error_at_a_shutdown', async (t) => {
  const words = logged(t);
  let terms = 0;
  @Injectable()
  class Scheduler {
    @Leader('scheduler')
    async schedule({ signal }: Term): Promise<void> {
      terms++;
      await sleep(3_600_000, undefined, { signal });
    }
  }
  const app = await start(t, new MemoryServer(), [Scheduler]);
  await until(() => terms === 1);
  await app.close();
  assert.deepEqual(words, []);
});

test('an_alias_of_a_provider_is_no_second_candidate', async (t) => {
  let terms = 0;
  @Injectable()
  class Scheduler {
    @Leader('scheduler')
    async schedule({ signal }: Term): Promise<void> {
      terms++;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    }
  }
  const same = { provide: 'same', useFactory: (scheduler: Scheduler) => scheduler, inject: [Scheduler] };
  await start(t, new MemoryServer(), [Scheduler, { provide: 'alias', useExisting: Scheduler }, same]);
  await until(() => terms === 1);
});

test('a_transient_class_can_not_lead', async () => {
  @Injectable({ scope: Scope.TRANSIENT })
  class Scheduler {
    readonly jobs = ['a'];

    @Leader('scheduler')
    async schedule(): Promise<void> {
      assert.deepEqual(this.jobs, ['a']);
    }
  }
  @Injectable()
  class User {
    @Inject(Scheduler) readonly scheduler!: Scheduler;
  }
  const started = start({ after() {} }, new MemoryServer(), [Scheduler, User]);
  await assert.rejects(started, (error) => isLeaseholdError(error, 'invalid-option') && error.field === '@Leader' && /transient.*Scheduler\.schedule/.test(error.message));
});

test('a_method_that_returns_while_it_leads_lets_others_lead_and_campaigns_again_after_five_seconds', async (t) => {
  const [time, words, server] = [new VirtualTime(t), logged(t), new MemoryServer()];
  const begun: [number, number][] = [];
  const makeApp = async (place: number) => {
    @Injectable()
    class Scheduler {
      @Leader('scheduler')
      async schedule(): Promise<void> {
        begun.push([place, time.now]);
      }
    }
    return start(t, server, [Scheduler]);
  };
  const apps = [await makeApp(1), await makeApp(2)];
  await time.pass(9_000, 100);
  const of = (place: number) => begun.filter(([found]) => found === place).map(([, at]) => at);
  for (const place of [1, 2]) {
    const [first = NaN, second = NaN, ...more] = of(place);
    assert.ok(first < 1_000 && second >= 5_000 && more.length === 0, of(place).join());
  }
  assert.equal(words.length, 2, 'each process warns once');
  assert.equal(words[0], "warn: Scheduler.schedule returned while it led 'scheduler', so this process resigns, and campaigns again in 5 s. To lead on, wait for `term.signal`");
  await time.until(Promise.all(apps.map((app) => app.close())));
});
