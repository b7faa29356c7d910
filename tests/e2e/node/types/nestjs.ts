// A user's NestJS application, with the decorators and the metadata that the Nest CLI's projects have. It is compiled as CommonJS and as
// an ES module.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { LockManager, type Term } from 'leasehold';
import { currentLease, Leader, LeaseholdModule, LockHealth, Locked, Once } from 'leasehold/nestjs';
import { MemoryServer } from 'leasehold/testing';

interface Order {
  readonly id: number;
}

@Injectable()
class Orders {
  constructor(private readonly locks: LockManager) {}

  @Locked((order: Order) => `order:${order.id}`, { wait: '5s' })
  async pay(order: Order, amount: number): Promise<string> {
    return `paid ${amount} under ${currentLease().name}, held ${(await this.locks.inspect(`order:${order.id}`)).holders.length}`;
  }

  @Once('report:{0}', { keep: '36h' })
  async report(day: string): Promise<string> {
    return `rows of ${day}`;
  }

  // @ts-expect-error its callers get a promise
  @Locked('order')
  count(): number {
    return 1;
  }

  // @ts-expect-error the method's argument is not that of the key
  @Locked((order: Order) => `order:${order.id}`)
  async wrong(id: string): Promise<string> {
    return id;
  }

  // @ts-expect-error a key is a text
  @Once((order: Order) => order.id, { keep: '36h' })
  async number(order: Order): Promise<number> {
    return order.id;
  }
}

let began = (_fence: number): void => {};
const term = new Promise<number>((resolve) => (began = resolve));

@Injectable()
class Scheduler {
  @Leader('scheduler', { value: 'host' })
  async schedule({ fence, signal }: Term): Promise<void> {
    began(fence);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  }

  // @ts-expect-error it gets a term
  @Leader('other')
  async other(fence: number): Promise<number> {
    return fence;
  }
}

@Module({
  imports: [LeaseholdModule.forRootAsync({ useFactory: () => ({ locks: new LockManager(new MemoryServer()) }) })],
  providers: [Orders, Scheduler],
})
class App {}

async function main(): Promise<void> {
  const app = await NestFactory.createApplicationContext(App, { logger: false });
  const orders = app.get(Orders);
  console.log(await orders.pay({ id: 7 }, 5));
  console.log(await orders.report('monday'));
  console.log(`leads ${(await term) > 0}`);
  console.log(JSON.stringify(await app.get(LockHealth).isHealthy('locks')));
  await app.close();
}

void main();
