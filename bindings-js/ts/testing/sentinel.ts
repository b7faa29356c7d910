/** A primary with one replica, and a sentinel that watches them. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

import { Redis } from 'ioredis-6';

import { until } from './subscription-recorder.js';
import { directory, Server } from './server.js';

export interface Watched {
  readonly primary: Server;
  readonly replica: Server;
  readonly sentinel: Server;
}

export const PRIMARY = 'primary';

export async function startSentinel(t: TestContext): Promise<Watched> {
  const primary = await Server.start('--repl-diskless-sync-delay', '0');
  t.after(() => primary.kill());
  const replica = await Server.start('--replicaof', `127.0.0.1 ${primary.port}`);
  t.after(() => replica.kill());
  await told(replica, ['info', 'replication'], /master_link_status:up/);
  const file = join(directory, `sentinel-${primary.port}.conf`);
  const settings = [`monitor ${PRIMARY} 127.0.0.1 ${primary.port} 1`, `down-after-milliseconds ${PRIMARY} 300`, `failover-timeout ${PRIMARY} 3000`];
  writeFileSync(file, settings.map((line) => `sentinel ${line}\n`).join(''));
  const sentinel = await Server.start(file, '--sentinel');
  t.after(() => sentinel.kill());
  await told(sentinel, ['sentinel', 'replicas', PRIMARY], new RegExp(`${replica.port}`));
  return { primary, replica, sentinel };
}

/** Waits until a server's answer contains a text. */
async function told({ port }: Server, [name = '', ...args]: string[], what: RegExp): Promise<void> {
  const client = new Redis(port, '127.0.0.1');
  try {
    await until(async () => what.test(String(await client.call(name, ...args))));
  } finally {
    client.disconnect();
  }
}
