/** Tests locks over TLS, and waits by message over a second connection that is encrypted too. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { type Connection, isLeaseholdError, LockManager } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { GENEROUS } from '../testing/generous.js';
import { directory, freePort, Server } from '../testing/server.js';

const [key, certificate] = [join(directory, 'tls.key'), join(directory, 'tls.crt')];

interface Secured {
  readonly client: Connection;
  close(): unknown;
}

/** Makes a client of each library that trusts this certificate. */
const libraries: Record<string, (port: number, ca: string) => Promise<Secured>> = {
  'ioredis 5': async (port, ca) => {
    const { Redis } = await import('ioredis-5');
    const client = new Redis(port, '127.0.0.1', { tls: { ca }, retryStrategy: () => 20 });
    client.on('error', () => {});
    return { client, close: () => client.disconnect() };
  },
  'ioredis 6': async (port, ca) => {
    const { Redis } = await import('ioredis-6');
    const client = new Redis(port, '127.0.0.1', { tls: { ca }, retryStrategy: () => 20 });
    client.on('error', () => {});
    return { client, close: () => client.disconnect() };
  },
  'node-redis 4': async (port, ca) => nodeRedis((await import('redis-4')).createClient({ url: `rediss://127.0.0.1:${port}`, socket: { tls: true, ca } })),
  'node-redis 5': async (port, ca) => nodeRedis((await import('redis-5')).createClient({ url: `rediss://127.0.0.1:${port}`, socket: { tls: true, ca } })),
  'node-redis 6': async (port, ca) => nodeRedis((await import('redis-6')).createClient({ url: `rediss://127.0.0.1:${port}`, socket: { tls: true, ca } })),
  'GLIDE 2': async (port, ca) => {
    const { GlideClient, Logger } = await import('@valkey/valkey-glide');
    Logger.init('off');
    const client = await GlideClient.createClient({
      addresses: [{ host: '127.0.0.1', port }], useTLS: true,
      advancedConfiguration: { tlsAdvancedConfiguration: { rootCertificates: ca } },
    });
    return { client, close: () => client.close() };
  },
};

async function nodeRedis<Client extends Connection & { on(event: 'error', listener: () => void): unknown; connect(): Promise<unknown>; disconnect(): unknown }>(client: Client): Promise<Secured> {
  client.on('error', () => {});
  await client.connect();
  return { client, close: () => client.disconnect() };
}

let server: Server | undefined;
let [port, ca, missing] = [0, '', ''];

before(async () => {
  try {
    // GLIDE refuses a CA certificate as a server's certificate, and the system's configuration would make it one.
    const words = ['-config', '/dev/null', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', '/CN=localhost'];
    words.push('-addext', 'subjectAltName=IP:127.0.0.1', '-addext', 'basicConstraints=CA:FALSE');
    execFileSync('openssl', ['req', '-x509', ...words, '-keyout', key, '-out', certificate], { stdio: 'ignore' });
    [port, ca] = [await freePort(), readFileSync(certificate, 'utf8')];
    const files = ['--tls-cert-file', certificate, '--tls-key-file', key, '--tls-ca-cert-file', certificate];
    server = await Server.start('--tls-port', `${port}`, '--tls-auth-clients', 'no', ...files);
  } catch (error) {
    missing = `no TLS here: ${String(error)}`;
  }
});
after(() => server?.kill());

for (const [name, open] of Object.entries(libraries)) {
  describe(name, () => {
    test('a_waiter_is_granted_by_message_over_tls', async (t) => {
      if (missing !== '') return t.skip(missing);
      const [ours, theirs] = [await open(port, ca), await open(port, ca)];
      const [locks, others] = [new LockManager(ours.client, GENEROUS), new LockManager(theirs.client, GENEROUS)];
      const lease = await locks.mutex('a').acquire();
      const waiting = others.mutex('a').acquire();
      await until(async () => (await locks.inspect('a')).waiters.length === 1);
      await lease.release();
      const granted = await waiting;
      assert.equal(await granted.release(), 'released');
      await Promise.all([locks.close(), others.close()]);
      await Promise.all([ours.close(), theirs.close()]);
    });
  });
}

test('a_certificate_that_is_not_trusted_is_told', async (t) => {
  if (missing !== '') return t.skip(missing);
  const { Redis } = await import('ioredis-6');
  const redis = new Redis(port, '127.0.0.1', { tls: {}, retryStrategy: () => 20 });
  t.after(() => redis.disconnect());
  redis.on('error', () => {});
  const locks = new LockManager(redis, GENEROUS);
  const error = await caught(locks.mutex('a').acquire({ wait: 3_000 }));
  assert.ok(isLeaseholdError(error, 'unreachable'), String(error));
  assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${port} was not available within .*self-signed certificate`));
  assert.equal((error.cause as { code?: string }).code, 'DEPTH_ZERO_SELF_SIGNED_CERT');
  await locks.close();
});
