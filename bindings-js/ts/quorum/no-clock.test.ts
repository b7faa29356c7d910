/** Tests servers that refuse `TIME` in scripts and have no `PEXPIRETIME`, in a cluster and in a quorum. There, the first lock learns it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Cluster, Redis } from 'ioredis-6';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught } from '../testing/expect.js';
import { GENEROUS, GENEROUS_QUORUM } from '../testing/generous.js';
import { Server } from '../testing/server.js';
import { startCluster } from '../testing/topologies.js';

test('a_cluster_and_a_quorum_whose_servers_tell_scripts_no_time_are_unsupported', async (t) => {
  const options = ['--rename-command', 'TIME', '', '--rename-command', 'PEXPIRETIME', ''];
  const [{ port }] = await startCluster(t, ...options);
  const servers = [await Server.start(...options), await Server.start(...options)];
  const cluster = new Cluster([{ host: '127.0.0.1', port }]);
  const clients = servers.map((server) => new Redis(server.port, '127.0.0.1', { retryStrategy: () => null }));
  t.after(() => [cluster, ...clients].forEach((client) => client.disconnect()));
  t.after(() => Promise.all(servers.map((server) => server.kill())));
  for (const locks of [new LockManager(cluster, GENEROUS), await LockManager.quorum([cluster, ...clients], GENEROUS_QUORUM)]) {
    const error = await caught(locks.mutex('door').acquire());
    assert.ok(isLeaseholdError(error, 'unsupported') && /refuses TIME in scripts.*\+pexpiretime and \+persist/.test(error.message), String(error));
    await locks.close();
  }
});
