// Two instances of a NestJS service with the same schedule. At each time, one of them makes the report, and both get its result. One of
// them leads, and does what only one instance may do.
//
// A real job has '0 3 * * *' in place of each second, and only the day in its name.
//
// `node --import tsx nestjs-schedule.ts`. It prints:
//   the instances have reports of 3 and 3 rows
//   no report was made twice
//   one instance of 2 leads
//   the other one follows
import 'reflect-metadata';
import { type INestApplicationContext, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, CronExpression, ScheduleModule } from '@nestjs/schedule';
import { Redis } from 'ioredis';
import { LockManager, type Term } from 'leasehold';
import { currentLease, Leader, LeaseholdModule, Once } from 'leasehold/nestjs';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
/** The names of the reports that were made, in both instances. */
const made: string[] = [];

@Injectable()
class Reports {
  readonly first: Promise<string[]>;
  #got!: (rows: string[]) => void;

  constructor() {
    this.first = new Promise((resolve) => (this.#got = resolve));
  }

  @Cron(CronExpression.EVERY_SECOND, { timeZone: 'UTC' })
  async everySecond(): Promise<void> {
    this.#got(await this.report(new Date().toISOString().slice(0, 19)));
  }

  @Once('report:{0}', { keep: '36h', wait: '2h' })
  async report(time: string): Promise<string[]> {
    currentLease().signal.throwIfAborted(); // the lock is lost: another instance may make the report now
    made.push(time);
    return ['a', 'b', 'c'];
  }
}

/** Is told which instance leads. */
let led = (_leader: Scheduler): void => {};

@Injectable()
class Scheduler {
  @Leader('example:scheduler', { value: 'host 1' })
  async lead(term: Term): Promise<void> {
    led(this);
    // The leader's work. It ends when the signal aborts: the term is lost, or the service shuts down.
    await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
  }
}

@Module({
  imports: [ScheduleModule.forRoot(), LeaseholdModule.forRootAsync({ useFactory: () => ({ locks: new LockManager(redis) }) })],
  providers: [Reports, Scheduler],
})
class AppModule {}

const nextLeader = (): Promise<Scheduler> => new Promise((resolve) => (led = resolve));
const start = (): Promise<INestApplicationContext> => NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });

const leading = nextLeader();
const apps = await Promise.all([start(), start()]);
const leader = await leading;

const reports = await Promise.all(apps.map((app) => app.get(Reports).first));
console.log(`the instances have reports of ${reports.map((rows) => rows.length).join(' and ')} rows`);
console.log(`${new Set(made).size === made.length ? 'no' : 'a'} report was made twice`);

const [first, second] = apps[0].get(Scheduler) === leader ? apps : [apps[1], apps[0]];
console.log(`one instance of ${apps.length} leads`);
const following = nextLeader();
await first.close(); // the leader resigns
console.log(second.get(Scheduler) === (await following) ? 'the other one follows' : 'the same one follows');
await second.close();
redis.disconnect();
