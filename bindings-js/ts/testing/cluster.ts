import type { TestContext } from 'node:test';

import { Redis } from 'ioredis-6';

import { until } from './subscription-recorder.js';
import { Server } from './server.js';

export interface Node {
  readonly server: Server;
  readonly port: number;
  /** Sends one command directly to this node. */
  run(...args: string[]): Promise<unknown>;
}

/** A cluster of two nodes. The first one serves the lower half of the slots. */
export async function startCluster(t: TestContext, ...options: string[]): Promise<[Node, Node]> {
  const [first, second] = [await start(t, options), await start(t, options)];
  await first.run('CLUSTER', 'ADDSLOTSRANGE', '0', '8191');
  await second.run('CLUSTER', 'ADDSLOTSRANGE', '8192', '16383');
  await first.run('CLUSTER', 'MEET', '127.0.0.1', `${second.port}`);
  for (const { run } of [first, second]) {
    await until(async () => String(await run('CLUSTER', 'INFO')).includes('cluster_state:ok'));
    await until(async () => String(await run('CLUSTER', 'SHARDS')).split('online').length > 2);
  }
  return [first, second];
}

/** Finds a key that the first node serves. */
export async function keyOfFirst([first]: readonly [Node, Node]): Promise<string> {
  for (let i = 0; ; i++) {
    const key = `key-${i}`;
    if (Number(await first.run('CLUSTER', 'KEYSLOT', key)) < 8192) return key;
  }
}

async function start(t: TestContext, options: readonly string[]): Promise<Node> {
  const server = await Server.start('--cluster-enabled', 'yes', ...options);
  t.after(() => server.kill());
  const client = new Redis(server.port, '127.0.0.1', { enableReadyCheck: false, retryStrategy: () => 20 });
  client.on('error', () => {});
  t.after(() => client.disconnect());
  return { server, port: server.port, run: (name, ...args) => client.call(name ?? '', ...args) };
}
