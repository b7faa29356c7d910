// generated/leasehold_js_bg.wasm -> generated/core.wasm (optimised) and generated/base64.js (the same as text); likewise the module with the
// quorum's engine, in generated/quorum/.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** What everybody who imports the package has to load: more than this, gzipped, is a defect. The scripts' texts are not in it, see `ts/command.ts`. */
const LIMIT = 64_000;
/** What `LockManager.quorum` loads beside it: the same with a machine more. */
const QUORUM_LIMIT = 80_000;

// What rustc emits for wasm32-unknown-unknown. It is said here, because wasm-bindgen strips the section that tells.
const FEATURES = ['bulk-memory', 'bulk-memory-opt', 'mutable-globals', 'nontrapping-float-to-int', 'sign-ext', 'reference-types', 'multivalue'];

// Functions of so many bytes are put in where they are called: with fewer of them a first lock waits less for their compilation.
const INLINED = ['-ocimfs', '20', '-aimfs', '8'];

const generated = join(import.meta.dirname, '../generated');
const wasmOpt = join(dirname(createRequire(import.meta.url).resolve('binaryen')), 'bin', 'wasm-opt');

optimise(generated, 'core.wasm', LIMIT);
optimise(join(generated, 'quorum'), 'quorum.wasm', QUORUM_LIMIT);

function optimise(directory, name, limit) {
  execFileSync(process.execPath, [
    wasmOpt, join(directory, 'leasehold_js_bg.wasm'), '-Oz', '--converge', ...INLINED, '--strip-debug', '--strip-producers',
    ...FEATURES.map((feature) => `--enable-${feature}`), '--output', join(directory, name),
  ], { stdio: 'inherit' });

  const wasm = readFileSync(join(directory, name));
  writeFileSync(join(directory, 'base64.js'), `export const base64 = '${wasm.toString('base64')}';\n`);
  writeFileSync(join(directory, 'base64.d.ts'), 'export declare const base64: string;\n');

  const kb = (bytes) => `${(bytes / 1000).toFixed(1)} KB`;
  const gzipped = gzipSync(wasm, { level: 9 }).length;
  console.log(`${name}: ${kb(wasm.length)}, ${kb(gzipped)} gzipped (at most ${kb(limit)})`);
  if (gzipped > limit) throw new Error(`${name} has grown too large`);
}
