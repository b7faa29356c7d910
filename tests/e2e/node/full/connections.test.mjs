// The connections over hosts' own sockets and over HTTP, in these runtimes and on real servers.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { startServer } from '../support/server.mjs';
import { lose, startUpstash } from '../support/upstash.mjs';
import { scenarios } from './scenarios.mjs';

const project = join(import.meta.dirname, '..');
const execute = promisify(execFile);
const binary = (...paths) => paths.map((path) => join(project, 'node_modules', path)).find(existsSync);
const platform = `${process.platform}-${process.arch}`;
const bun = binary(...['x64', 'aarch64'].map((arch) => `@oven/bun-${process.platform}-${arch}/bin/bun`), 'bun/bin/bun.exe');
const deno = binary(`@deno/${platform}-glibc/deno`, `@deno/${platform}/deno`);

let servers, server, control, directory, given;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'leasehold-connections-'));
  const file = (name) => join(directory, name);
  const words = ['-config', '/dev/null', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  execFileSync('openssl', ['req', '-x509', ...words, '-keyout', file('key'), '-out', file('ca')], { stdio: 'ignore' });
  const tls = await startServer('--tls-cert-file', file('ca'), '--tls-key-file', file('key'), '--tls-auth-clients', 'no');
  const tlsPort = tls.port + 1;
  await tls.cli('CONFIG', 'SET', 'tls-port', `${tlsPort}`);
  const [cluster, login] = await Promise.all([startServer('--cluster-enabled', 'yes'), startServer('--bind', '127.0.0.1', '-::1')]);
  await login.cli('ACL', 'SETUSER', 'worker', 'on', '>p@ss', '~*', '&*', '+@all');
  await login.cli('ACL', 'SETUSER', 'guest', 'on', 'nopass', '~*', '&*', '+@all');
  await login.cli('ACL', 'SETUSER', 'default', 'resetpass', '>other');
  server = await startServer();
  servers = [server, tls, cluster, login];
  control = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    response.end(JSON.stringify((await obey(JSON.parse(text)).catch(({ message }) => message)) ?? null));
  });
  control.listen(0, '127.0.0.1');
  await once(control, 'listening');
  given = {
    url: server.url, control: `http://127.0.0.1:${control.address().port}`,
    urls: { cluster: cluster.url, login: login.url, tls: `rediss://127.0.0.1:${tlsPort}`, ca: file('ca'), ...(hasIpv6() ? { ipv6: `redis://guest@[::1]:${login.port}` } : {}) },
  };
});
after(async () => {
  control?.closeAllConnections();
  control?.close();
  await Promise.all((servers ?? []).map((server) => server.stop()));
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => server.restart());

function hasIpv6() {
  return Object.values(networkInterfaces()).flat().some(({ address }) => address === '::1');
}

/** Acts on the server, for a scenario. */
async function obey([word, ...words]) {
  if (['stop', 'restart', 'pause', 'resume'].includes(word)) return server[word]();
  return server.cli(word, ...words);
}

describe('leasehold/bun', () => {
  for (const name of Object.keys(scenarios)) {
    test(name, async () => {
      const options = { cwd: project, timeout: 60_000, env: { ...process.env, SCENARIO: JSON.stringify(given) } };
      const { stdout } = await execute(bun, ['full/bun.mjs', name], options);
      assert.match(stdout, /^as promised$/m);
    });
  }

  test('options of Bun that would send commands late are refused, and so is a client with them', async () => {
    const program = join(directory, 'options.mjs');
    writeFileSync(program, `
      import { RedisClient } from 'bun';
      import { LockManager } from '${join(project, 'node_modules/leasehold/dist/index.mjs')}';
      import { bunConnection } from '${join(project, 'node_modules/leasehold/dist/bun.mjs')}';
      const told = (act) => { try { act(); } catch ({ code, field, message }) { console.log(code, field, message); } };
      told(() => bunConnection('redis://127.0.0.1', { autoReconnect: true }));
      told(() => bunConnection('redis://127.0.0.1', { enableOfflineQueue: true }));
      told(() => bunConnection('redis://127.0.0.1', { connectionTimeout: -1 }));
      told(() => bunConnection('redis://127.0.0.1', null));
      told(() => new LockManager(new RedisClient('redis://127.0.0.1')));
      const untrusted = bunConnection('${given.urls.tls}');
      await untrusted.call(['PING']).catch(({ sent }) => console.log('a certificate that is not trusted', sent));
      untrusted.close();
    `);
    const { stdout } = await execute(bun, [program], { timeout: 20_000 });
    const [reconnect, queue, timeout, nothing, client, untrusted] = stdout.split('\n');
    assert.match(reconnect, /^invalid-option autoReconnect `autoReconnect` is not an option of bunConnection, which takes tls and connectionTimeout$/);
    assert.match(queue, /^invalid-option enableOfflineQueue /);
    assert.match(timeout, /^invalid-option connectionTimeout `connectionTimeout` can't be used by Bun: /);
    assert.match(nothing, /^invalid-option options /);
    assert.match(client, /^invalid-option connection .*`bunConnection\(url\)` of `leasehold\/bun`$/);
    assert.equal(untrusted, 'a certificate that is not trusted false');
  });
});

/** Starts the program as a Worker. */
async function startWorker(program, bindings) {
  const outdir = join(project, `workerd-${program.replace(/\W/g, '-')}`);
  await build({
    entryPoints: [join(project, program)], outdir, entryNames: 'worker', format: 'esm', bundle: true, conditions: ['workerd'],
    external: ['cloudflare:sockets'], loader: { '.wasm': 'copy' }, assetNames: '[name]',
  });
  assert.deepEqual(readdirSync(outdir).sort(), ['core.wasm', 'worker.js']);
  // Miniflare reads it when it is loaded, and then trusts the certificate.
  process.env.NODE_EXTRA_CA_CERTS = given.urls.ca;
  const { Miniflare } = await import('miniflare');
  const module = (type, path) => ({ type, path, contents: readFileSync(join(outdir, path)) });
  return new Miniflare({ compatibilityDate: '2026-01-01', bindings, modules: [module('ESModule', 'worker.js'), module('CompiledWasm', 'core.wasm')] });
}

describe('leasehold/cloudflare', () => {
  let worker;

  before(async () => {
    worker = await startWorker('full/cloudflare.mjs', given);
  });
  after(() => worker?.dispose().catch(() => {}));

  for (const name of Object.keys(scenarios)) {
    test(name, async () => {
      const response = await worker.dispatchFetch(`http://localhost/${encodeURIComponent(name)}`);
      assert.equal(await response.text(), 'as promised');
    });
  }
});

describe('leasehold/upstash', () => {
  let proxy;

  beforeEach(async () => {
    proxy = await startUpstash(server);
    proxy.faults.push(undefined, lose);
  });
  afterEach(async () => {
    const sent = proxy.seen.filter(([name]) => name === 'INCR').length;
    await proxy.stop();
    assert.equal(sent, 1, 'a command whose reply is lost is sent once');
  });

  for (const [name, words] of [['Bun', [bun]], ['Deno', [deno, 'run', '--allow-all', '--node-modules-dir=manual']]]) {
    test(`the tour under ${name}`, async () => {
      const env = { ...process.env, UPSTASH_URL: proxy.url, UPSTASH_TOKEN: proxy.token };
      const { stdout } = await execute(words[0], [...words.slice(1), 'programs/upstash.mjs'], { cwd: project, timeout: 60_000, env });
      assert.match(stdout, /^toured$/m);
    });
  }

  test('the tour in workerd', async () => {
    const worker = await startWorker('full/upstash.mjs', { URL: proxy.url, TOKEN: proxy.token });
    try {
      assert.equal(await (await worker.dispatchFetch('http://localhost/')).text(), 'toured');
    } finally {
      await worker.dispose().catch(() => {});
    }
  });
});
