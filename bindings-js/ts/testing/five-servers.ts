/** Five independent real servers, and managers over a quorum of them. */

import { after } from 'node:test';

import { Redis } from 'ioredis-6';

import { LockManager, type QuorumOptions } from '../index.js';
import { GENEROUS_QUORUM } from './generous.js';
import { Server } from './server.js';

export class FiveServers {
  readonly servers: readonly Server[];
  readonly #clients: Redis[] = [];
  readonly #managers: LockManager[] = [];

  private constructor(servers: readonly Server[]) {
    this.servers = servers;
  }

  /** Starts the servers. They end with the test that calls this. */
  static async start(end: (close: () => Promise<void>) => void = after): Promise<FiveServers> {
    const servers = new FiveServers(await Promise.all(Array.from({ length: 5 }, () => Server.start())));
    end(() => servers.close());
    return servers;
  }

  /** Makes one client for each server. */
  clients(): Redis[] {
    const clients = this.servers.map(({ port }) => {
      const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 20 });
      client.on('error', () => {});
      return client;
    });
    this.#clients.push(...clients);
    return clients;
  }

  /** Makes a manager. Its clients are closed after the manager. */
  async manager(options: QuorumOptions = {}, clients = this.clients()): Promise<LockManager> {
    this.#clients.push(...clients);
    const locks = await LockManager.quorum(clients, { ...GENEROUS_QUORUM, ...options });
    this.#managers.push(locks);
    return locks;
  }

  /** Sends one command directly to one of the servers. */
  async run(at: number, name: string, ...args: string[]): Promise<unknown> {
    const client = new Redis(this.servers[at]?.port ?? 0, '127.0.0.1');
    try {
      return await client.call(name, ...args);
    } finally {
      client.disconnect();
    }
  }

  async close(): Promise<void> {
    for (const server of this.servers) server.resume();
    // A manager that closes waits for dead servers, for one or two node timeouts.
    await Promise.all(this.servers.map((server) => server.isRunning || server.restart()));
    await Promise.all(this.#managers.map((locks) => locks.close()));
    this.#clients.forEach((client) => client.disconnect());
    await Promise.all(this.servers.map((server) => server.kill()));
  }
}
