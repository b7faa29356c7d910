// A NestJS service: a module that provides one lock manager, a filter that answers 503 while a lock is busy, and a clean end.
//
// `node --import tsx nestjs.ts`. It prints:
//   two requests at once: 201 charged, 201 charged before
//   while a colleague holds the lock: 503 busy
//   closed, and no lock is left
import 'reflect-metadata';
import { type ArgumentsHost, type BeforeApplicationShutdown, Catch, Controller, type ExceptionFilter, Global, Inject, Injectable, Module, type OnApplicationShutdown, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { type Closed, LeaseholdError, LockManager } from 'leasehold';

const URL = process.env.REDIS_URL ?? 'redis://127.0.0.1';

/** Every module of the service can inject the `LockManager`. */
@Global()
@Module({
  providers: [
    { provide: Redis, useFactory: () => new Redis(URL) },
    { provide: LockManager, useFactory: (redis: Redis) => new LockManager(redis), inject: [Redis] },
  ],
  exports: [LockManager],
})
class LocksModule implements BeforeApplicationShutdown, OnApplicationShutdown {
  #closing?: Promise<Closed>;

  constructor(@Inject(LockManager) private readonly locks: LockManager, @Inject(Redis) private readonly redis: Redis) {}

  /** Runs before the server waits for the last requests. Those that hold a lock finish. Those that wait for one get 503. */
  beforeApplicationShutdown(): void {
    this.#closing = this.locks.close({ drain: '25s' });
  }

  /** Runs after the last request. The manager gives back what it holds, so it goes before its connection. */
  async onApplicationShutdown(): Promise<void> {
    await this.#closing;
    this.redis.disconnect();
  }
}

@Injectable()
class Invoices {
  readonly #charged = new Set<string>(); // in a real service: a table with a column for the fence

  constructor(@Inject(LockManager) private readonly locks: LockManager) {}

  charge(id: string): Promise<string> {
    return this.locks.mutex(`invoice:${id}`).run(async (lease) => {
      if (this.#charged.has(id)) return 'charged before';
      await pay(id, lease.fence);
      this.#charged.add(id);
      return 'charged';
    }, { wait: '10s' });
  }

  /** Its caller would rather try again later than wait. */
  cancel(id: string): Promise<string> {
    return this.locks.mutex(`invoice:${id}`).run(() => 'cancelled', { wait: '1s' });
  }
}

async function pay(_invoice: string, _fence: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 20));
}

@Controller('invoices')
class InvoicesController {
  constructor(@Inject(Invoices) private readonly invoices: Invoices) {}

  @Post(':id/charge')
  charge(@Param('id') id: string): Promise<string> {
    return this.invoices.charge(id);
  }

  @Post(':id/cancel')
  cancel(@Param('id') id: string): Promise<string> {
    return this.invoices.cancel(id);
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

@Module({ imports: [LocksModule], controllers: [InvoicesController], providers: [Invoices] })
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

await app.close();
const left = (await redis.keys('invoice:*')).length;
console.log(`closed, and ${left === 0 ? 'no lock is' : `${left} locks are`} left`);
await others.close();
redis.disconnect();
