// Runs the same tour in every runtime, on a real server.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const project = join(import.meta.dirname, '..');
const execute = promisify(execFile);
let server, others;

before(async () => {
  [server, ...others] = await Promise.all([startServer(), startServer(), startServer()]);
});
after(() => Promise.all([server, ...others].map((one) => one.stop())));

async function run(program, ...words) {
  const { stdout } = await execute(program, words, {
    cwd: project, timeout: 60_000, env: { ...process.env, REDIS_URL: server.url, REDIS_URLS: [server, ...others].map(({ url }) => url).join(',') },
  });
  return stdout;
}

/** The binary of a package that has one for each platform. */
function binary(...candidates) {
  const found = candidates.map((path) => join(project, 'node_modules', path)).find(existsSync);
  assert.ok(found, `none of ${candidates.join(', ')} is installed`);
  return found;
}

const platform = `${process.platform}-${process.arch}`;
// Bun's install script moves the binary, if npm runs that script.
const bun = () => binary(...['x64', 'aarch64'].map((arch) => `@oven/bun-${process.platform}-${arch}/bin/bun`), 'bun/bin/bun.exe');
const deno = () => binary(`@deno/${platform}-glibc/deno`, `@deno/${platform}/deno`);

for (const kind of ['mjs', 'cjs']) {
  test(`the tour under Bun, from a .${kind} file`, async () => {
    assert.match(await run(bun(), `programs/tour.${kind}`), /^toured$/m);
  });

  test(`the tour under Deno, from a .${kind} file`, async () => {
    assert.match(await run(deno(), 'run', '--allow-all', '--node-modules-dir=manual', `programs/tour.${kind}`), /^toured$/m);
  });

  test(`a quorum under Bun and under Deno, from a .${kind} file`, async () => {
    assert.match(await run(bun(), `programs/quorum.${kind}`), /^agreed$/m);
    assert.match(await run(deno(), 'run', '--allow-all', '--node-modules-dir=manual', `programs/quorum.${kind}`), /^agreed$/m);
  });
}

test('a server in memory under Bun and under Deno', async () => {
  assert.match(await run(bun(), 'programs/in-memory.mjs'), /^expired$/m);
  assert.match(await run(deno(), 'run', '--allow-all', '--node-modules-dir=manual', 'programs/in-memory.mjs'), /^expired$/m);
});

test('the drop-ins under Bun and under Deno', async () => {
  assert.equal(await run(bun(), 'programs/dropins.mjs'), 'dropped in\n');
  assert.equal(await run(deno(), 'run', '--allow-all', '--node-modules-dir=manual', 'programs/dropins.mjs'), 'dropped in\n');
});

test('`await using` as Node 24 runs it by itself', async () => {
  assert.match(await run(join(project, 'node_modules/node-24/bin/node'), 'full/using.mjs'), /^used$/m);
});

test('a bundle by esbuild', async () => {
  const { build } = await import('esbuild');
  for (const format of ['esm', 'cjs']) {
    const outfile = join(project, `bundled-${format}.${format === 'esm' ? 'mjs' : 'cjs'}`);
    await build({ entryPoints: [join(project, 'full/main.mjs')], outfile, format, bundle: true, platform: 'node', external: ['ioredis'] });
    assert.match(await run(process.execPath, outfile), /^toured\nagreed$/m);
  }
});

test('a bundle of the drop-ins by esbuild', async () => {
  const { build } = await import('esbuild');
  const outfile = join(project, 'bundled-dropins.mjs');
  // As for ioredis itself: a module that requires a part of Node.
  const banner = { js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);` };
  await build({ entryPoints: [join(project, 'programs/dropins.mjs')], outfile, format: 'esm', bundle: true, platform: 'node', external: ['ioredis'], banner });
  assert.equal(await run(process.execPath, outfile), 'dropped in\n');
});

test('a bundle by Bun, for Bun and for Node', async () => {
  for (const [target, runtime] of [['bun', bun()], ['node', process.execPath]]) {
    const outfile = join(project, `bundled-by-bun-for-${target}.mjs`);
    await run(bun(), 'build', `--target=${target}`, '--minify', 'full/main.mjs', `--outfile=${outfile}`);
    assert.match(await run(runtime, outfile), /^toured\nagreed$/m);
  }
});

test('a bundle by Vite', async () => {
  const { build } = await import('vite');
  await build({
    root: project, logLevel: 'error', ssr: { noExternal: ['leasehold'], external: ['ioredis'] },
    build: { ssr: 'full/main.mjs', outDir: 'vite', minify: true },
  });
  assert.match(await run(process.execPath, 'vite/main.js'), /^toured\nagreed$/m);
});

test('TypeScript 5.9 compiles a consumer under node16, with `await using` for old hosts', async () => {
  const words = ['--module', 'node16', '--target', 'es2022', '--lib', 'es2022,esnext.disposable', '--strict',
    '--exactOptionalPropertyTypes', '--types', 'node', '--outDir', 'typed-5', 'types/consumer.ts'];
  await run(process.execPath, 'node_modules/typescript-5/bin/tsc', ...words).catch((error) => assert.fail(error.stdout));
  assert.match(await run(process.execPath, 'typed-5/consumer.js'), /^typed released true$/m);
});

test('a worker renews a lease while the event loop is blocked, under Bun and under Deno', async () => {
  const programs = [[bun(), 'programs/blocked.mjs'], [deno(), 'run', '--allow-all', '--node-modules-dir=manual', 'programs/blocked.mjs']];
  assert.deepEqual(await Promise.all(programs.map((words) => run(...words))), programs.map(() => 'kept released\n'));
});
