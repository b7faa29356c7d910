// Optimises generated/leasehold_js_bg.wasm to generated/core.wasm, and writes it as text to generated/base64.js. Does the same for
// the engine of a quorum, in generated/quorum/, and for the server in memory, in generated/memory/. With `--quick` it optimises
// nothing, which is enough for tests.
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { deflateRawSync, gzipSync } from 'node:zlib';
import zopfli from '@gfx/zopfli';

import { nameByLikeness } from './alike.mjs';

/** The maximum size of core.wasm, gzipped, in bytes. Every importer loads it. The texts of the scripts are not in it: see `ts/engine/command.ts`. */
const LIMIT = 72_000;
/** The same for quorum.wasm, which `LockManager.quorum` loads. It also contains everything in core.wasm. */
const QUORUM_LIMIT = 94_000;
/** The same for memory.wasm, which only `leasehold/testing` and `leasehold/without-scripts` load. It has the scripts' texts, to recognise them. */
const MEMORY_LIMIT = 128_000;

// The features that rustc uses for wasm32-unknown-unknown. wasm-bindgen strips the section that lists them.
const FEATURES = ['bulk-memory', 'bulk-memory-opt', 'mutable-globals', 'nontrapping-float-to-int', 'sign-ext', 'reference-types', 'multivalue'];

// Inline functions up to these sizes. With fewer functions, less time goes into compiling before the first lock.
const INLINED = ['-ocimfs', '14', '-aimfs', '5'];
// Flat code, whose control flow is then built anew, is half a percent smaller. Three times, a further 0.2 percent.
const FLAT = ['--flatten', '--rereloop'];
const SMALLEST = [...FLAT, '--gufa', '-Oz', ...FLAT, '-Oz', ...FLAT, '-Oz', '--converge', ...INLINED];
// One percent larger, in a third of the time.
const SMALL = ['-Oz'];

const generated = join(import.meta.dirname, '../generated');
const wasmOpt = join(dirname(createRequire(import.meta.url).resolve('binaryen')), 'bin', 'wasm-opt');

await optimise(generated, 'leasehold_js', 'core.wasm', SMALLEST, LIMIT);
await optimise(join(generated, 'quorum'), 'leasehold_js', 'quorum.wasm', SMALLEST, QUORUM_LIMIT);
await optimise(join(generated, 'memory'), 'leasehold_js_memory', 'memory.wasm', SMALL, MEMORY_LIMIT);

async function optimise(directory, crate, name, passes, limit) {
  if (process.argv.includes('--quick')) {
    copyFileSync(join(directory, `${crate}_bg.wasm`), join(directory, name));
    const wasm = readFileSync(join(directory, name));
    return write(directory, wasm, deflateRawSync(wasm, { level: 1 }));
  }
  const file = join(directory, name);
  run(join(directory, `${crate}_bg.wasm`), passes, file);
  writeFileSync(file, nameByLikeness(readFileSync(file)));
  run(file, ['-Oz', ...INLINED, '--reorder-functions-by-name'], file);

  const wasm = readFileSync(file);
  write(directory, wasm, await zopfli.deflateAsync(wasm, { numiterations: 5 }));

  const kb = (bytes) => `${(bytes / 1000).toFixed(1)} KB`;
  const gzipped = gzipSync(wasm, { level: 9 }).length;
  console.log(`${name}: ${kb(wasm.length)}, ${kb(gzipped)} gzipped (at most ${kb(limit)})`);
  if (gzipped > limit) throw new Error(`${name} is too large: the limit is ${limit} bytes, gzipped`);
}

function run(input, passes, output) {
  execFileSync(process.execPath, [
    wasmOpt, input, '--low-memory-unused', '--zero-filled-memory', ...passes, '--strip-debug', '--strip-producers', '--strip-target-features',
    ...FEATURES.map((feature) => `--enable-${feature}`), '--output', output,
  ], { stdio: 'inherit' });
}

/** Writes a module as text, for hosts that can't read files. It is compressed, because a bundle with plain WebAssembly in base64 is 26 % larger, also gzipped. */
function write(directory, { length }, packed) {
  writeFileSync(join(directory, 'base64.js'), `export const length = ${length};\nexport const base64 = '${Buffer.from(packed).toString('base64')}';\n`);
  writeFileSync(join(directory, 'base64.d.ts'), 'export declare const length: number;\nexport declare const base64: string;\n');
}
