// The installed package has the right contents, and lets a process end.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { Redis } from 'ioredis';
import * as leasehold from 'leasehold';
import { startServer } from '../support/server.mjs';

const project = join(import.meta.dirname, '..');
const require = createRequire(import.meta.url);
const execute = promisify(execFile);
let server, others;

before(async () => {
  [server, ...others] = await Promise.all([startServer(), startServer(), startServer()]);
});
after(() => Promise.all([server, ...others].map((one) => one.stop())));

/** Runs a program in this project and returns its output. */
async function run(...words) {
  const { stdout } = await execute(process.execPath, words, {
    cwd: project, timeout: 600_000, env: { ...process.env, REDIS_URL: server.url, REDIS_URLS: [server, ...others].map(({ url }) => url).join(',') },
  });
  return stdout;
}

test('import and require get the same package', () => {
  const required = require('leasehold');
  assert.ok(Object.keys(leasehold).includes('LockManager'));
  for (const [name, value] of Object.entries(leasehold)) {
    if (name !== 'default' && name !== 'module.exports') assert.equal(required[name], value, name);
  }
});

test('an import in Node makes it scan no CommonJS file for exports, and bundlers get a file that they can follow', () => {
  assert.match(import.meta.resolve('leasehold'), /\/dist\/node\.mjs$/);
  const { module } = require('leasehold/package.json').exports['.'].import;
  assert.match(readFileSync(join(dirname(require.resolve('leasehold/package.json')), module), 'utf8'), /from '\.\/index\.cjs'/);
});

test('it has no dependencies, and contains the WebAssembly as a file', () => {
  const { dependencies, scripts } = require('leasehold/package.json');
  assert.equal(dependencies, undefined);
  assert.equal(scripts, undefined);
  for (const name of ['core', 'quorum']) assert.ok(WebAssembly.validate(readFileSync(require.resolve(`leasehold/${name}.wasm`))));
});

test('it works without the WebAssembly file, as in a bundle', async () => {
  const bare = mkdtempSync(join(project, 'bare-'));
  cpSync(dirname(require.resolve('leasehold')), join(bare, 'dist'), { recursive: true });
  for (const name of ['core.wasm', 'quorum.wasm']) rmSync(join(bare, 'dist', name));
  const { LockManager } = require(join(bare, 'dist', 'index.cjs'));
  assert.ok(new LockManager({ call: async () => null }));
  const locks = await LockManager.quorum([1, 2, 3].map(() => ({ call: async () => null })));
  await locks.close();
});

test('it works where the globals TextEncoder and TextDecoder are missing, as in jsdom under Jest', async () => {
  assert.equal(await run('-e', `
    delete globalThis.TextEncoder;
    delete globalThis.TextDecoder;
    const { LockManager } = require('leasehold');
    const { MemoryServer } = require('leasehold/testing');
    new LockManager(new MemoryServer()).mutex('é', { label: 'job é' }).run((lease) => console.log(lease.name));
  `), 'é\n');
});

test('without WebAssembly, loading fails with a typed error that says so', async () => {
  for (const name of ['leasehold', 'leasehold/testing', 'leasehold/redlock']) {
    const required = `try { require('${name}') } catch (error) { console.log(error.code) }`;
    assert.equal(await run('--jitless', '-e', required), 'unsupported\n', name);
    // In Node 20, such an error of an `import()` can't be caught.
    await assert.rejects(run('--jitless', '-e', `import('${name}')`), /without WebAssembly.*--jitless/);
  }
});

test('leasehold/opentelemetry can be imported and required, and traces a lock', async () => {
  const [{ trace }, sdk] = [await import('@opentelemetry/api'), await import('@opentelemetry/sdk-trace-base')];
  const client = new Redis(server.url);
  for (const { instrument } of [await import('leasehold/opentelemetry'), require('leasehold/opentelemetry')]) {
    const exporter = new sdk.InMemorySpanExporter();
    trace.setGlobalTracerProvider(new sdk.BasicTracerProvider({ spanProcessors: [new sdk.SimpleSpanProcessor(exporter)] }));
    const locks = new leasehold.LockManager(client);
    const stop = instrument(locks);
    await locks.mutex('traced').run(() => {});
    stop();
    await locks.close();
    trace.disable();
    assert.deepEqual(exporter.getFinishedSpans().map(({ name }) => name), ['leasehold.acquire', 'leasehold.hold']);
  }
  client.disconnect();
});

test('it works without @opentelemetry/api, which only leasehold/opentelemetry imports', () => {
  for (const name of ['index.cjs', 'leasehold.cjs', 'workerd.mjs', 'index.d.mts']) {
    assert.doesNotMatch(readFileSync(join(dirname(require.resolve('leasehold')), name), 'utf8'), /@opentelemetry/, name);
  }
});

for (const kind of ['mjs', 'cjs']) {
  test(`a lock waits, passes on, is lost and released from a .${kind} file`, async () => {
    assert.match(await run(`programs/tour.${kind}`), /^toured$/m);
  });
}

test('a quorum of three agrees, from a .mjs file', async () => {
  assert.match(await run('programs/quorum.mjs'), /^agreed$/m);
});

test('a quorum of three agrees, from a .cjs file, and its engine is not loaded before', async () => {
  assert.equal(await run('programs/quorum.cjs'), 'agreed\nloaded before the first quorum: false, after: true\n');
});

/** The largest bundle of a program that imports `LockManager`, minified and gzipped, in bytes. */
const BUNDLE_LIMIT = 130_000;

test('a bundle has the engine of quorums and the worker only if the program imports them', async () => {
  const plain = await bundle("import { LockManager } from 'leasehold'; console.log(LockManager);");
  const size = gzipSync(readFileSync(plain), { level: 9 }).length;
  console.log(`a bundle of LockManager: ${size} bytes, gzipped (at most ${BUNDLE_LIMIT})`);
  assert.ok(size <= BUNDLE_LIMIT, `${size} bytes`);
  const asks = `
    import { Redis } from 'ioredis';
    import { LockManager } from 'leasehold';
    const clients = process.env.REDIS_URLS.split(',').map((url) => new Redis(url));
    const told = ({ code, message }) => console.log(code, message.match(/import '([^']+)'/)?.[1]);
    await LockManager.quorum(clients).catch(told);
    try { new LockManager(clients[0], { renewIn: { worker: process.argv[1] } }).mutex('a').tryAcquire().catch(told) } catch (error) { told(error) }
    for (const client of clients) client.disconnect();`;
  assert.equal(await run(await bundle(asks)), 'unsupported leasehold/quorum\nunsupported leasehold/renew-in\n');
  const has = "import 'leasehold/quorum'; import './programs/quorum.mjs';";
  assert.match(await run(await bundle(has)), /^agreed$/m);
  assert.match(await run(await bundle(has.replace('mjs', 'cjs'), 'cjs')), /^agreed$/m);
  // The drop-ins use the same parts.
  const dropIn = "import 'leasehold/quorum'; import './programs/dropin-quorum.mjs';";
  assert.equal(await run(await bundle(dropIn)), 'taken\n');
});

/** Bundles a program as users do, minified and without the package beside it. Returns the file. */
async function bundle(contents, format = 'esm') {
  const directory = mkdtempSync(join(tmpdir(), 'leasehold-bundle-'));
  after(() => rmSync(directory, { recursive: true, force: true }));
  const outfile = join(directory, `program.${format === 'esm' ? 'mjs' : 'cjs'}`);
  const banner = format === 'esm' ? { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" } : {};
  await build({ stdin: { contents, resolveDir: project }, outfile, format, banner, bundle: true, minify: true, platform: 'node', logLevel: 'error' });
  return outfile;
}

test('a process that holds a lease ends when it has nothing else to do', async () => {
  assert.match(await run('programs/idle.mjs'), /^held\n$/);
});

test('a worker renews a lease while the event loop is blocked, in an ES module, in CommonJS and in a bundle', async () => {
  const bundle = mkdtempSync(join(tmpdir(), 'leasehold-bundle-'));
  after(() => rmSync(bundle, { recursive: true, force: true }));
  // Nothing of the package is beside the bundle.
  const banner = { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" };
  const entryPoints = ['blocked-in-bundle', 'blocked-redis'].map((name) => join(project, 'programs', `${name}.mjs`));
  await build({ entryPoints, bundle: true, platform: 'node', format: 'esm', outdir: bundle, outExtension: { '.js': '.mjs' }, banner, logLevel: 'error' });
  const programs = ['programs/blocked.mjs', 'programs/blocked.cjs', join(bundle, 'blocked-in-bundle.mjs')];
  assert.deepEqual(await Promise.all(programs.map((program) => run(program))), programs.map(() => 'kept released\n'));
});
