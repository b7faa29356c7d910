// `bundle.mjs <engine.wasm> <scripts.ts> <package>`: bundles the package for the demo's workers, from ts/ and from WebAssembly that is
// not optimised.
//
// The package has everything that a program in Node needs for locks on one server, but no types, no quorum and no other entry points.
// It is never published: `../bundle.mjs` makes what users get. esbuild comes from the directory where this script is run.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { deflateRawSync } from 'node:zlib';

const [engine, scripts, target] = process.argv.slice(2).map((path) => resolve(path));
const { build } = createRequire(resolve('package.json'))('esbuild');

const generated = { 'base64.js': engine, 'leasehold_js.js': join(import.meta.dirname, 'engine.mjs'), 'scripts.js': scripts };

mkdirSync(target, { recursive: true });
await build({
  entryPoints: [join(import.meta.dirname, '../../ts/index.ts')],
  outfile: join(target, 'index.mjs'),
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  logLevel: 'warning',
  // As in `../bundle.mjs`: starting the WebAssembly is a side effect.
  ignoreAnnotations: true,
  plugins: [{ name: 'demo', setup: fromElsewhere }],
});
writeFileSync(join(target, 'package.json'), '{ "name": "leasehold", "type": "module", "exports": "./index.mjs" }\n');

function fromElsewhere(build) {
  build.onResolve({ filter: /\/wasm\/quorum\.js$/ }, () => ({ path: './no-quorum-in-the-demo.mjs', external: true }));
  build.onResolve({ filter: /\/generated\/[^/]+$/ }, ({ path }) => ({ path: generated[path.slice(path.lastIndexOf('/') + 1)] }));
  build.onLoad({ filter: /\.wasm$/ }, ({ path }) => {
    const wasm = readFileSync(path);
    return { contents: `export const length = ${wasm.length};\nexport const base64 = '${deflateRawSync(wasm, { level: 1 }).toString('base64')}';` };
  });
}
