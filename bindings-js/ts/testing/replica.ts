/** Starts replicas of a server. */

import { Redis } from 'ioredis-6';

import { until } from './subscription-recorder.js';
import { Server } from './server.js';

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
