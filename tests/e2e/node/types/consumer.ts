// A user's program. It is compiled under every module resolution and runs on Node 20, which can't parse `await using`.
import { Redis } from 'ioredis';
import { LeaseholdError, LockManager, type Lease, type LockManagerEvents } from 'leasehold';
import { instrument } from 'leasehold/opentelemetry';
import { type Clock, MemoryServer, type MemoryServerOptions } from 'leasehold/testing';

const redis = new Redis(process.env['REDIS_URL']!);

async function count(locks: LockManager): Promise<number> {
  await using lease: Lease = await locks.mutex('counter').acquire({ ttl: '10s', wait: 5_000 });
  const fence: number = lease.fence;
  const signal: AbortSignal = lease.signal;
  void signal;
  return fence;
}

/** The code of a caught error narrows it to the fields of that error. */
function reasonOf(error: unknown): string {
  if (!(error instanceof LeaseholdError)) return 'another';
  switch (error.code) {
    case 'busy':
      return `waited ${error.waited.toFixed()} ms`;
    case 'lost':
      return error.reason;
    case 'invalid-option':
      return error.field.toUpperCase();
    default:
      return error.code;
  }
}

/** A test without a server. */
async function inMemory(): Promise<boolean> {
  const { clock }: { clock: Clock } = new MemoryServer();
  const options: MemoryServerOptions = { clock };
  const server = new MemoryServer(options);
  await using locks = new LockManager(server);
  const lease = await locks.mutex('counter').acquire();
  const isHeld: boolean = server.expire('counter');
  clock.advance('30s');
  await lease.lost;
  await using quorum = await LockManager.quorum([server, new MemoryServer(options), new MemoryServer(options)]);
  return isHeld && (await quorum.mutex('counter').tryAcquire()) !== null;
}

async function main(): Promise<void> {
  if (!(await inMemory())) throw new Error('the server in memory did not work');
  await using locks = new LockManager(redis, { prefix: 'typed:', ttl: '30s' });
  const stop: () => void = instrument(locks);
  // Options that may be missing.
  const signal = undefined as AbortSignal | undefined;
  await locks.election('typed', { value: process.env['ADDRESS'], ttl: undefined }).observe({ signal }).return();
  const losses: LockManagerEvents['lost'][] = [];
  locks.on('lost', (loss) => losses.push(loss)).once('acquire', (event) => {
    // The code narrows the event.
    const fence: number = event.code === 'granted' ? event.fence : 0;
    if (!(fence > 0)) throw new Error('not granted');
  });
  const first = await count(locks);
  const second = await count(locks);
  if (!(second > first)) throw new Error('the fences did not rise');

  const refused = await locks.mutex('counter').acquire({ ttl: 1 }).catch((error: unknown) => reasonOf(error));
  if (refused !== 'TTL') throw new Error(`it was ${String(refused)}`);
  const busy: Lease | null = await locks.mutex('counter').tryAcquire();
  const outcome: 'released' | 'still-held' | 'already-expired' | 'not-owner' | 'detached' | undefined = await busy?.release();
  const value: string = await locks.readWrite('page').read().run(async (lease) => `read with ${lease.remaining} ms left`);
  console.log(`typed ${outcome} ${value.length > 0}`);
}

void main().finally(() => redis.disconnect());
