// A NestJS service: the module provides one lock manager and drains it at a shutdown. A method holds a lock while it runs. A filter
// answers 503 while a lock is busy.
//
// `node --import tsx nestjs.ts`. It prints:
//   two requests at once: 201 charged, 201 charged before
//   while a colleague holds the lock: 503 busy
//   health: up
//   closed, and no lock is left
import 'reflect-metadata';
import { type ArgumentsHost, Catch, Controller, type ExceptionFilter, Get, Inject, Injectable, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { LeaseholdError, LockManager } from 'leasehold';
import { currentLease, LeaseholdModule, LockHealth, Locked } from 'leasehold/nestjs';

const URL = process.env.REDIS_URL ?? 'redis://127.0.0.1';

@Injectable()
class Invoices {
  readonly #charged = new Set<string>(); // in a real service: a table with a column for the fence

  @Locked('invoice:{0}', { wait: '10s' })
  async charge(id: string): Promise<string> {
    if (this.#charged.has(id)) return 'charged before';
    await pay(id, currentLease().fence);
    this.#charged.add(id);
    return 'charged';
  }

  /** Its caller would rather try again later than wait. */
  @Locked('invoice:{0}', { wait: '1s' })
  async cancel(_id: string): Promise<string> {
    return 'cancelled';
  }
}

async function pay(_invoice: string, _fence: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 20));
}

@Controller()
class Routes {
  // With `emitDecoratorMetadata`, which tsx hasn't, a constructor needs no `@Inject`.
  constructor(@Inject(Invoices) private readonly invoices: Invoices, @Inject(LockHealth) private readonly locks: LockHealth) {}

  @Post('invoices/:id/charge')
  charge(@Param('id') id: string): Promise<string> {
    return this.invoices.charge(id);
  }

  @Post('invoices/:id/cancel')
  cancel(@Param('id') id: string): Promise<string> {
    return this.invoices.cancel(id);
  }

  /** With `@nestjs/terminus`: `this.health.check([() => this.locks.isHealthy('locks')])`. */
  @Get('health')
  async health(): Promise<string> {
    return (await this.locks.isHealthy('locks')).locks.status;
  }
}

/** Turns the errors of locks into answers that a client understands. */
@Catch(LeaseholdError)
class LockErrors implements ExceptionFilter {
  catch(error: LeaseholdError, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse();
    response.status(error.retryable || error.code === 'closed' ? 503 : 500).set('Retry-After', '1').send(error.code);
  }
}

@Module({
  imports: [
    LeaseholdModule.forRootAsync({
      useFactory: () => {
        const redis = new Redis(URL);
        return { locks: new LockManager(redis), drain: '25s', afterClose: () => redis.disconnect() };
      },
    }),
  ],
  controllers: [Routes],
  providers: [Invoices],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] });
app.useGlobalFilters(new LockErrors());
app.enableShutdownHooks(); // so that SIGTERM also closes the manager
await app.listen(0, '127.0.0.1');

async function post(path: string): Promise<string> {
  const response = await fetch(`${await app.getUrl()}/invoices/${path}`, { method: 'POST' });
  return `${response.status} ${await response.text()}`;
}

const both = await Promise.all([post('42/charge'), post('42/charge')]);
console.log('two requests at once:', both.sort().join(', '));

const redis = new Redis(URL);
const others = new LockManager(redis);
const colleague = await others.mutex('invoice:43').acquire();
console.log('while a colleague holds the lock:', await post('43/cancel'));
await colleague.release();
console.log('health:', await (await fetch(`${await app.getUrl()}/health`)).text());

await app.close();
const left = (await redis.keys('invoice:*')).length;
console.log(`closed, and ${left === 0 ? 'no lock is' : `${left} locks are`} left`);
await others.close();
redis.disconnect();
