// Runs in workerd, the runtime of Cloudflare Workers. There, the WebAssembly is a module, and the Worker opens its own sockets.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { Miniflare } from 'miniflare';
import { startServer } from '../support/server.mjs';

const project = join(import.meta.dirname, '..');

let servers, miniflare;

before(async () => {
  servers = await Promise.all([startServer(), startServer(), startServer()]);
  const outdir = join(project, 'workerd');
  await build({
    entryPoints: [join(project, 'full/worker.mjs')], outdir, format: 'esm', bundle: true, conditions: ['workerd'],
    external: ['cloudflare:sockets'], loader: { '.wasm': 'copy' }, assetNames: '[name]',
  });
  const module = (type, path) => ({ type, path, contents: readFileSync(join(outdir, path)) });
  miniflare = new Miniflare({
    compatibilityDate: '2026-01-01', bindings: { PORTS: servers.map(({ port }) => port) },
    modules: [module('ESModule', 'worker.js'), module('CompiledWasm', 'core.wasm'), module('CompiledWasm', 'quorum.wasm')],
  });
});
after(async () => {
  await miniflare?.dispose().catch(() => {});
  await Promise.all(servers.map((server) => server.stop()));
});

test('a manager in module scope is refused with an explanation, and hangs no request', async () => {
  const ask = async (path) => (await miniflare.dispatchFetch(`http://localhost${path}`)).json();
  const early = await ask('/early');
  assert.equal(early.code, 'unsupported', early.message);
  assert.match(early.message, /module scope of a Worker.*inside the request handler/);
  assert.deepEqual(await ask('/kept'), { outcome: 'released' });
  for (let request = 0; request < 3; request++) {
    const began = performance.now();
    const later = await ask('/kept');
    assert.equal(later.code, 'unsupported', later.message);
    assert.match(later.message, /module scope of a Worker/);
    assert.ok(performance.now() - began < 1_000);
  }
});

test('a quorum without its module is refused with the line to add', async () => {
  const answer = await (await miniflare.dispatchFetch('http://localhost/quorum-without-its-module')).json();
  assert.equal(answer.code, 'unsupported', answer.message);
  assert.match(answer.message, /`import 'leasehold\/quorum'`/);
});

test('a Worker over ioredis takes a lock, says when it is busy, and uploads no module of a quorum', async () => {
  const outdir = join(project, 'workerd-ioredis');
  // As Wrangler bundles: packages have their browser versions, and the rest requires parts of Node, which `nodejs_compat` has.
  const banner = { js: `import { createRequire } from 'node:module'; const require = createRequire('file:///worker.js');` };
  await build({
    entryPoints: [join(project, 'worker/worker.mjs')], outdir, format: 'esm', bundle: true, platform: 'node',
    conditions: ['workerd', 'worker', 'browser'], mainFields: ['browser', 'module', 'main'],
    loader: { '.wasm': 'copy' }, assetNames: '[name]', banner,
  });
  assert.deepEqual(readdirSync(outdir).sort(), ['core.wasm', 'worker.js']);
  const module = (type, path) => ({ type, path, contents: readFileSync(join(outdir, path)) });
  const [server] = servers;
  const worker = new Miniflare({
    compatibilityDate: '2026-01-01', compatibilityFlags: ['nodejs_compat'], bindings: { REDIS_URL: server.url },
    modules: [module('ESModule', 'worker.js'), module('CompiledWasm', 'core.wasm')],
  });
  try {
    const ask = async () => {
      const response = await worker.dispatchFetch('http://localhost/');
      return `${response.status} ${await response.text()}`;
    };
    for (let request = 0; request < 3; request++) assert.match(await ask(), /^200 worked with fence \d+$/);
    await server.cli('SET', 'report', 'a colleague', 'PX', '60000');
    assert.equal(await ask(), '503 busy');
    await server.cli('DEL', 'report');
    assert.match(await ask(), /^200 worked with fence \d+$/);
  } finally {
    await worker.dispose();
  }
});

test('the tour and a quorum in workerd, over its own sockets, again and again', async () => {
  for (let request = 0; request < 3; request++) {
    const response = await miniflare.dispatchFetch('http://localhost/');
    assert.equal(await response.text(), 'toured');
  }
});
