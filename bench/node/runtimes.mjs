import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Spread } from './report.mjs';

const ROUNDS = 9;
/** The first rounds don't count, because the runtimes compile meanwhile. */
const FIRST_ROUNDS = 2;
const CYCLES = 1_000;
const CONTENDERS = ['SET', 'leasehold'];

const project = import.meta.dirname;
const bundled = join(project, 'bundled');

/**
 * One task takes free locks in other runtimes than Node, and in Node from a bundle. The rival is a bare `SET` and compare-and-delete
 * over the same connection, in the same runtime.
 */
export async function measureRuntimes(report) {
  const { build } = await import('esbuild');
  // As for ioredis itself: a module that requires a part of Node.
  const banner = { js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);` };
  await build({ entryPoints: [join(project, 'runtime-worker.mjs')], outfile: join(bundled, 'node.mjs'), format: 'esm', bundle: true, platform: 'node', banner });

  report.title(`Runtimes: one task acquires and releases one of ten locks, ${CYCLES} cycles in each of ${ROUNDS} rounds`);
  report.line(['', -26], ['SET µs', 20], ['leasehold µs', 20], ['x SET', 20]);
  const runtimes = {
    'Node': () => startProcess(process.execPath, ['runtime-worker.mjs']),
    'Node, bundled by esbuild': () => startProcess(process.execPath, [join(bundled, 'node.mjs')]),
    'Bun': () => startProcess(bun(), ['runtime-worker.mjs']),
    'Deno': () => startProcess(deno(), ['run', '--allow-all', '--node-modules-dir=manual', 'runtime-worker.mjs']),
    'workerd': () => startWorker(build),
  };
  for (const [name, start] of Object.entries(runtimes)) {
    const runtime = await start();
    const samples = { SET: [], leasehold: [] };
    for (let round = -FIRST_ROUNDS; round < ROUNDS; round++) {
      for (const contender of CONTENDERS) {
        const ms = await runtime.run(contender);
        if (round >= 0) samples[contender].push((ms * 1_000) / CYCLES);
      }
    }
    await runtime.stop();
    const [set, ours] = CONTENDERS.map((contender) => new Spread(samples[contender]));
    const ratio = new Spread(samples.leasehold.map((time, round) => time / samples.SET[round]));
    report.line([name, -26], [set.shown(), 20], [ours.shown(), 20], [ratio.shown(2), 20]);
    report.add('runtimes', { runtime: name, set_us: set, leasehold_us: ours, to_set: ratio });
  }
}

/** A program that answers each line of its input. */
function startProcess(program, words) {
  const child = spawn(program, words, { cwd: project, stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async run(contender) {
      child.stdin.write(`${contender} ${CYCLES}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error(`${program} has ended`);
      return Number(value);
    },
    async stop() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}

/** A Worker in workerd, with the build of the package for it. */
async function startWorker(build) {
  const { Miniflare } = await import('miniflare');
  await build({
    entryPoints: [join(project, 'runtime-request.mjs')], outfile: join(bundled, 'worker.js'), format: 'esm', bundle: true, conditions: ['workerd'],
    external: ['cloudflare:sockets'], loader: { '.wasm': 'copy' }, assetNames: '[name]',
  });
  const module = (type, path) => ({ type, path, contents: readFileSync(join(bundled, path)) });
  const miniflare = new Miniflare({
    compatibilityDate: '2026-01-01', bindings: { REDIS_URL: process.env.REDIS_URL },
    modules: [module('ESModule', 'worker.js'), module('CompiledWasm', 'core.wasm')],
  });
  return {
    async run(contender) {
      const response = await miniflare.dispatchFetch(`http://localhost/${contender}/${CYCLES}`);
      const text = await response.text();
      if (!response.ok) throw new Error(text);
      return Number(text);
    },
    stop: () => miniflare.dispose(),
  };
}

// npm installs the binary for this platform. The packages' own install scripts may not run.
const bun = () => binary(...['x64', 'aarch64'].map((arch) => `@oven/bun-${process.platform}-${arch}/bin/bun`), 'bun/bin/bun.exe');
const deno = () => binary(...['-glibc', ''].map((libc) => `@deno/${process.platform}-${process.arch}${libc}/deno`));

function binary(...candidates) {
  const found = candidates.map((path) => join(project, 'node_modules', path)).find(existsSync);
  if (found === undefined) throw new Error(`none of ${candidates.join(', ')} is installed`);
  return found;
}
