/** A real server, and as many managers on it as a test wants, each with a connection of its own. */

import { after } from 'node:test';

import { Redis } from 'ioredis-6';

import { LockManager, type LockManagerOptions } from '../index.js';
import { until } from './expect.js';
import { GENEROUS } from './generous.js';
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

  /** Makes a manager. */
  manager(options: LockManagerOptions = {}): LockManager {
    const locks = new LockManager(this.client(), { ...GENEROUS, ...options });
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
    const closeClients = (): void => this.#clients.forEach((client) => client.disconnect());
    // A server that does not answer would delay the managers.
    if (!this.server.isRunning) closeClients();
    await Promise.all(this.#managers.map((locks) => locks.close()));
    closeClients();
    await this.server.kill();
  }
}

let named = 0;

/** Makes a name that no other test uses. */
export function unique(what = 'lock'): string {
  return `${what}:${++named}`;
}
