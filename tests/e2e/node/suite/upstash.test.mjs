// Locks over HTTP: the client of @upstash/redis, and a proxy in front of a real server.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { promisify } from 'node:util';
import { Redis } from '@upstash/redis';
import { Redis as CloudflareRedis } from '@upstash/redis/cloudflare';
import { Redis as IoRedis } from 'ioredis';
import { isLeaseholdError, LockManager } from 'leasehold';
import { upstashConnection } from 'leasehold/upstash';
import tour from '../programs/tour.js';
import { startServer } from '../support/server.mjs';
import { lose, startUpstash } from '../support/upstash.mjs';
import { soon, until } from '../support/wait.mjs';

let server, proxy;

before(async () => {
  server = await startServer();
  proxy = await startUpstash(server);
});
after(async () => {
  await proxy?.stop();
  await server?.stop();
});
beforeEach(async () => {
  await server.cli('FLUSHALL');
  Object.assign(proxy, { seen: [], faults: [] });
});

const client = (options) => new Redis({ url: proxy.url, token: proxy.token, enableTelemetry: false, ...options });
const sent = (name) => proxy.seen.filter(([word]) => word === name).length;

for (const [name, make] of [
  ['a client', () => client()],
  ['a client without pipelines and base64', () => client({ enableAutoPipelining: false, responseEncoding: false, automaticDeserialization: false })],
  ['a client for Cloudflare', () => new CloudflareRedis({ url: proxy.url, token: proxy.token })],
  ['an address with a token', () => ({ url: `${proxy.url}/`, token: proxy.token })],
]) {
  test(`the tour over ${name}`, async () => {
    await tour(upstashConnection(make()), LockManager, () => server.cli('FLUSHALL'));
    assert.equal(sent('SUBSCRIBE'), 0);
  });
}

test('the tour from a program that ends by itself, and sends a command once whose reply is lost', async () => {
  proxy.faults.push(undefined, lose);
  const run = promisify(execFile)(process.execPath, ['programs/upstash.mjs'], {
    cwd: join(import.meta.dirname, '..'), timeout: 600_000, env: { ...process.env, UPSTASH_URL: proxy.url, UPSTASH_TOKEN: proxy.token },
  });
  assert.match((await run).stdout, /^toured$/m);
  assert.equal(sent('INCR'), 1);
});

test('it can be required', () => {
  assert.equal(typeof createRequire(import.meta.url)('leasehold/upstash').upstashConnection, 'function');
});

test('a waiter polls until a client on TCP gives the lock back, and the user\'s own commands go on', async () => {
  const [redis, other] = [client(), new IoRedis(server.port)];
  const [locks, others] = [new LockManager(upstashConnection(redis)), new LockManager(other)];
  const lease = await others.mutex('shared').acquire();
  const waiting = locks.mutex('shared').acquire({ wait: '10s' });
  await until('the waiter stands in the queue', async () => (await others.inspect('shared')).waiters.length === 1);
  assert.equal(await redis.set('mine', { a: 1 }), 'OK');
  assert.deepEqual(await redis.get('mine'), { a: 1 });
  await lease.release();
  const next = await soon('the lock', waiting);
  assert.ok(next.fence > lease.fence);
  assert.equal(await next.release(), 'released');
  await Promise.all([locks.close(), others.close()]);
  other.disconnect();
});

test('great numbers and any bytes arrive as they are', async () => {
  const connection = upstashConnection(client());
  const [digits, bytes, number, nothing] = await connection.call(['EVAL', String.raw`return {'9007199254740993', '\255\0\254', 9007199254740991, false}`, '0']);
  assert.equal(Buffer.from(digits).toString(), '9007199254740993');
  assert.deepEqual([...bytes], [255, 0, 254]);
  assert.deepEqual([number, nothing], [9007199254740991, null]);
  const text = 'é\0"\r\n{}: 🔒';
  assert.equal(Buffer.from(await connection.call(['EVAL', 'return ARGV[1]', '0', text])).toString(), text);

  await server.cli('SET', 'leasehold:fence', '8999999999999998');
  const locks = new LockManager(connection);
  const lease = await locks.mutex('é 🔒').acquire();
  assert.equal(lease.fence, 8_999_999_999_999_999);
  assert.equal((await locks.inspect('é 🔒')).lastFence, lease.fence);
  await lease.release();
  await locks.close();
});

test('scripts that the server has lost are loaded again', async () => {
  const locks = new LockManager(upstashConnection(client()));
  for (let round = 0; round < 2; round++) {
    await server.cli('SCRIPT', 'FLUSH');
    await locks.mutex('loaded').run(() => {});
  }
  await locks.close();
});

test('a command whose reply is lost is sent once, although the client would send it again', async () => {
  const redis = client({ retry: { retries: 3, backoff: () => 1 } });
  const connection = upstashConnection(redis);
  // The socket is in use already, so that a runtime might take its end for an idle one's.
  await connection.call(['PING']);
  proxy.faults.push(lose);
  await assert.rejects(connection.call(['INCR', 'count']), (error) => error.sent !== false);
  assert.equal(await server.cli('GET', 'count'), '1');
  assert.equal(sent('INCR'), 1);
  // So it does not prove itself by a client that never retries.
  proxy.faults.push((response) => response.destroy());
  await redis.incr('theirs');
  assert.equal(await server.cli('GET', 'theirs'), '1');
});

test('a lock whose answer is lost is found again', async () => {
  const locks = new LockManager(upstashConnection(client()), { responseTimeout: '10s' });
  await locks.mutex('warm').run(() => {});
  proxy.faults.push(lose);
  const lease = await locks.mutex('found').acquire({ wait: '5m' });
  assert.equal(proxy.faults.length, 0);
  assert.equal(await lease.release(), 'released');
  await locks.close();
});

test('a redirect is not followed, and a page of a gateway is no answer of the server', async () => {
  const connection = upstashConnection(client());
  proxy.faults.push((response) => response.writeHead(307, { location: proxy.url }).end());
  await assert.rejects(connection.call(['INCR', 'count']), /answered with HTTP status 307/);
  proxy.faults.push((response) => response.writeHead(502).end('<html>Bad gateway</html>'));
  await assert.rejects(connection.call(['INCR', 'count']), /^Error: the REST API at 127\.0\.0\.1:\d+ answered with HTTP status 502: <html>/);
  proxy.faults.push((response) => response.writeHead(500).end('{"error":"ERR it may have run"}'));
  await assert.rejects(connection.call(['INCR', 'count']), /^Error: the REST API .* 500: ERR it may have run/);
  proxy.faults.push((response) => response.writeHead(200).end('null'));
  await assert.rejects(connection.call(['INCR', 'count']), /HTTP status 200: null/);
  assert.equal(await server.cli('EXISTS', 'count'), 0);
});

test('a lease is lost when the API can no longer be reached, and waiting ends with `unreachable`', async () => {
  const brittle = await startUpstash(server);
  const locks = new LockManager(upstashConnection({ url: brittle.url, token: brittle.token }), { ttl: '8s' });
  const lease = await locks.mutex('brittle').acquire();
  await brittle.stop();
  assert.equal(await soon('the loss', lease.lost), 'expired');
  const unreachable = await locks.mutex('brittle').acquire({ wait: '5s' }).catch((error) => error);
  assert.ok(isLeaseholdError(unreachable, 'unreachable'));
  assert.match(unreachable.message, /no reply from the REST API at 127\.0\.0\.1:\d+: connect ECONNREFUSED/);
  await locks.close();
});

test('a wrong token is an `auth` error', async () => {
  const locks = new LockManager(upstashConnection({ url: proxy.url, token: 'wrong' }));
  await assert.rejects(locks.mutex('locked').acquire(), (error) => isLeaseholdError(error, 'auth'));
  await locks.close();
});

test('a proxy that refuses a token in its own words is an `auth` error, too', async () => {
  const locks = new LockManager(upstashConnection(client()));
  const refuse = (response) => response.writeHead(403).end('{"error":"Forbidden"}');
  // More than it asks: for `INFO`, and then for the lock.
  proxy.faults.push(...Array(20).fill(refuse));
  await assert.rejects(locks.mutex('locked').acquire(), (error) => isLeaseholdError(error, 'auth') && /Forbidden/.test(error.message));
  proxy.faults.length = 0;
  await locks.close();
});

test('replicas can\'t be waited for', async () => {
  const locks = new LockManager(upstashConnection(client()));
  const acquire = locks.mutex('safe', { waitForReplicas: { min: 1, timeout: '1s' } }).acquire();
  await assert.rejects(acquire, (error) => isLeaseholdError(error, 'unsupported'));
  await locks.close();
});

test('what is no client and no address is refused with its field', () => {
  const { url, token } = proxy;
  for (const [field, given] of [
    ['url', undefined], ['url', null], ['url', {}], ['url', { token }], ['url', { url: 'redis://127.0.0.1', token }], ['url', { url: 'https://', token }],
    ['url', { url: url.replace('//', '//user:secret@'), token }],
    ['token', { url }], ['token', { url, token: '' }], ['token', { url, token: 'two\nlines' }],
    ['redis', new Redis({ request: async () => ({ result: 1 }) })],
  ]) {
    assert.throws(() => upstashConnection(given), (error) => isLeaseholdError(error, 'invalid-option') && error.field === field && !error.message.includes('secret'), field);
  }
});

test('a client without the adapter is refused with the adapter\'s name', () => {
  for (const redis of [client(), client({ enableAutoPipelining: false })]) {
    assert.throws(() => new LockManager(redis), /`connection` .*upstashConnection\(redis\)` of `leasehold\/upstash`/);
  }
});
