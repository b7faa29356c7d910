// generated/leasehold_js_bg.wasm -> generated/core.wasm (optimised) and generated/base64.js (the same as text).
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/**
 * What everybody who imports the package has to load: more than this, gzipped, is a defect. Two kinds took 57 KiB; reentrant locks, semaphores,
 * several names and `force_release` came on top, each with a machine or scripts of its own.
 */
const LIMIT = 78 * 1024;

// What rustc emits for wasm32-unknown-unknown. It is said here, because wasm-bindgen strips the section that tells.
const FEATURES = ['bulk-memory', 'bulk-memory-opt', 'mutable-globals', 'nontrapping-float-to-int', 'sign-ext', 'reference-types', 'multivalue'];

const generated = (name) => join(import.meta.dirname, '../generated', name);
const wasmOpt = join(dirname(createRequire(import.meta.url).resolve('binaryen')), 'bin', 'wasm-opt');

execFileSync(process.execPath, [
  wasmOpt, generated('leasehold_js_bg.wasm'), '-Oz', '--converge', '-ocimfs', '50', '--strip-debug', '--strip-producers',
  ...FEATURES.map((feature) => `--enable-${feature}`), '--output', generated('core.wasm'),
], { stdio: 'inherit' });

const wasm = readFileSync(generated('core.wasm'));
writeFileSync(generated('base64.js'), `export const base64 = '${wasm.toString('base64')}';\n`);
writeFileSync(generated('base64.d.ts'), 'export declare const base64: string;\n');

const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
const gzipped = gzipSync(wasm, { level: 9 }).length;
console.log(`core.wasm: ${kib(wasm.length)}, ${kib(gzipped)} gzipped (at most ${kib(LIMIT)})`);
if (gzipped > LIMIT) throw new Error('the WebAssembly has grown too large');
