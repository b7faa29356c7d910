/** Starts several servers that belong together: a cluster, a primary with replicas, a sentinel. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

import { Redis } from 'ioredis-6';

import { until } from './expect.js';
import { directory, Server } from './server.js';

/** Runs a function at the end: of a test, or with `{ after }` of a whole file. */
interface Ending {
  after(end: () => Promise<void> | void): void;
}

export interface Node {
  readonly server: Server;
  readonly port: number;
  /** Sends one command directly to this node. */
  run(...args: string[]): Promise<unknown>;
}

/** A cluster of two nodes. The first one serves the lower half of the slots. A node that is slow or dead doesn't affect the other one. */
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

/** A server that enforces the slots of a cluster at one address and refuses `CLUSTER`, as some services do. */
export async function startEnforcingSlots(t: Ending): Promise<Server> {
  const { server, run } = await start(t, []);
  await run('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await until(async () => String(await run('CLUSTER', 'INFO')).includes('cluster_state:ok'));
  await run('ACL', 'SETUSER', 'default', '-cluster', '-readonly', '-readwrite', '-asking');
  return server;
}

/** Finds a key that the first node serves. */
export async function keyOfFirst([first]: readonly [Node, Node]): Promise<string> {
  for (let i = 0; ; i++) {
    const key = `key-${i}`;
    if (Number(await first.run('CLUSTER', 'KEYSLOT', key)) < 8192) return key;
  }
}

async function start(t: Ending, options: readonly string[]): Promise<Node> {
  const server = await Server.start('--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '60000', ...options);
  t.after(() => server.kill());
  const client = new Redis(server.port, '127.0.0.1', { enableReadyCheck: false, retryStrategy: () => 20 });
  client.on('error', () => {});
  t.after(() => client.disconnect());
  return { server, port: server.port, run: (name, ...args) => client.call(name ?? '', ...args) };
}

/** Starts a server that accepts replicas without a delay. */
export function startPrimary(): Promise<Server> {
  return Server.start('--repl-diskless-sync-delay', '0');
}

/** Starts a replica, and waits until the primary counts it as connected. */
export async function startReplica(primary: Server): Promise<Server> {
  const replica = await Server.start('--replicaof', `127.0.0.1 ${primary.port}`);
  const client = new Redis(primary.port, '127.0.0.1');
  try {
    await until(async () => new RegExp(`port=${replica.port},state=online`).test(await client.info('replication')));
  } finally {
    client.disconnect();
  }
  return replica;
}

export interface SentinelSetup {
  readonly primary: Server;
  readonly replica: Server;
  readonly sentinel: Server;
}

export const PRIMARY = 'primary';

/** A sentinel that fails over only when it is told to, so a primary may be slow. */
export async function startSentinel(t: TestContext): Promise<SentinelSetup> {
  const primary = await Server.start('--repl-diskless-sync-delay', '0');
  t.after(() => primary.kill());
  const replica = await Server.start('--replicaof', `127.0.0.1 ${primary.port}`);
  t.after(() => replica.kill());
  await untilReply(replica, ['info', 'replication'], /master_link_status:up/);
  const file = join(directory, `sentinel-${primary.port}.conf`);
  const settings = [`monitor ${PRIMARY} 127.0.0.1 ${primary.port} 1`, `down-after-milliseconds ${PRIMARY} 600000`, `failover-timeout ${PRIMARY} 3000`];
  writeFileSync(file, settings.map((line) => `sentinel ${line}\n`).join(''));
  const sentinel = await Server.start(file, '--sentinel');
  t.after(() => sentinel.kill());
  await untilReply(sentinel, ['sentinel', 'replicas', PRIMARY], new RegExp(`${replica.port}`));
  return { primary, replica, sentinel };
}

/** Tells the sentinel to replace a primary that is dead or silent. */
export async function expectFailover({ sentinel }: SentinelSetup): Promise<void> {
  const client = new Redis(sentinel.port, '127.0.0.1');
  try {
    await client.call('SENTINEL', 'SET', PRIMARY, 'down-after-milliseconds', '300');
  } finally {
    client.disconnect();
  }
}

/** Waits until the reply to a command contains a text. */
async function untilReply({ port }: Server, [name = '', ...args]: string[], text: RegExp): Promise<void> {
  const client = new Redis(port, '127.0.0.1');
  try {
    await until(async () => text.test(String(await client.call(name, ...args))));
  } finally {
    client.disconnect();
  }
}
