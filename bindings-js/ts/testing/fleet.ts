/** A real server, and as many managers on it as a test wants, each with a connection of its own. */

import { after } from 'node:test';

import { Redis } from 'ioredis-6';

import { LockManager, type LockManagerOptions } from '../index.js';
import { until } from './expect.js';
import { Server } from './server.js';

export class Fleet {
  readonly server: Server;
  /** A plain client, to read and change keys. */
  readonly redis: Redis;
  readonly #clients: Redis[] = [];
  readonly #managers: LockManager[] = [];

  private constructor(server: Server) {
    this.server = server;
    this.redis = this.client();
  }

  /** Starts the server. It ends with the tests of the file, or with the test that calls this. */
  static async start(end: (close: () => Promise<void>) => void = after): Promise<Fleet> {
    const fleet = new Fleet(await Server.start());
    end(() => fleet.close());
    return fleet;
  }

  client(): Redis {
    const client = new Redis(this.server.port, '127.0.0.1', { retryStrategy: () => 20 });
    client.on('error', () => {});
    this.#clients.push(client);
    return client;
  }

  /** Makes a manager with durations that suit tests. */
  manager(options: LockManagerOptions = {}): LockManager {
    const locks = new LockManager(this.client(), { claimWindow: 600, responseTimeout: 500, wait: '10s', ...options });
    this.#managers.push(locks);
    return locks;
  }

  /** Waits until this many clients wait for a lock. */
  async waiting(name: string, count: number): Promise<void> {
    const locks = this.#managers[0] ?? this.manager();
    await until(async () => (await locks.inspect(name)).waiters.length === count);
  }

  async isThere(name: string): Promise<boolean> {
    return (await this.redis.exists(name)) === 1;
  }

  async close(): Promise<void> {
    await Promise.all(this.#managers.map((locks) => locks.close()));
    for (const client of this.#clients) client.disconnect();
    await this.server.kill();
  }
}

let named = 0;

/** Makes a name that no other test uses. */
export function unique(what = 'lock'): string {
  return `${what}:${++named}`;
}
