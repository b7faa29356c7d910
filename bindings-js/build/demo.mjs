// `demo.mjs <generated> <package>`: bundles the package for the demo's workers, from ts/ and from WebAssembly that was built fast.
//
// It has everything that a program in Node needs for locks on one server, but no types, no quorum and no other entry points. It is
// never published: `bundle.mjs` makes what users get. esbuild is the one of the directory where this is run.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';

const [generated, target] = process.argv.slice(2).map((path) => resolve(path));
const { build } = createRequire(resolve('package.json'))('esbuild');

const wasm = readFileSync(join(generated, 'leasehold_js_bg.wasm'));
writeFileSync(join(generated, 'base64.js'), `export const base64 = '${wasm.toString('base64')}';\n`);
mkdirSync(target, { recursive: true });
await build({
  entryPoints: [join(dirname(import.meta.dirname), 'ts/index.ts')],
  outfile: join(target, 'index.mjs'),
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  logLevel: 'warning',
  // As in `bundle.mjs`: starting the WebAssembly is a side effect.
  ignoreAnnotations: true,
  plugins: [{ name: 'demo', setup: fromElsewhere }],
});
writeFileSync(join(target, 'package.json'), '{ "name": "leasehold", "type": "module", "exports": "./index.mjs" }\n');

function fromElsewhere(build) {
  build.onResolve({ filter: /\/wasm\/quorum\.js$/ }, () => ({ path: './no-quorum-in-the-demo.mjs', external: true }));
  build.onResolve({ filter: /\/generated\// }, ({ path }) => ({
    path: join(generated, path.slice(path.lastIndexOf('/generated/') + '/generated/'.length).replace(/^scripts\.js$/, 'scripts.ts')),
  }));
}
