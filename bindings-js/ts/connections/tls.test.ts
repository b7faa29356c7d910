/** Tests locks over TLS, and waits by message over a second connection that is encrypted too. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { isLeaseholdError, LockManager } from '../index.js';
import { caught, until } from '../testing/expect.js';
import { GENEROUS } from '../testing/generous.js';
import { libraries } from '../testing/libraries.js';
import { directory, freePort, Server } from '../testing/server.js';

const [key, certificate] = [join(directory, 'tls.key'), join(directory, 'tls.crt')];

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

for (const { name, open } of libraries) {
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
