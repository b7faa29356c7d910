// ts/ and generated/ -> dist/, which is what users get.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { build } from 'esbuild';
import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';

process.chdir(dirname(import.meta.dirname));
rmSync('dist', { recursive: true, force: true });
mkdirSync('dist');
copyFileSync('generated/core.wasm', 'dist/core.wasm');
copyFileSync('generated/quorum/quorum.wasm', 'dist/quorum.wasm');

const common = {
  entryPoints: ['ts/index.ts'],
  bundle: true,
  platform: 'neutral',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  // `sideEffects` in package.json speaks of what is published; among the sources the wasm's start is one.
  ignoreAnnotations: true,
  logLevel: 'warning',
};

// Node searches a CommonJS file for its names, character by character, when a module imports it. So the big ones stand
// behind a small one that lists them.
// What is imported late is required late: hosts that run CommonJS by themselves, such as Jest, know no `import()`.
const node = { ...common, format: 'cjs', supported: { 'dynamic-import': false }, plugins: [{ name: 'node', setup: withTextApart }] };
await build({ ...node, outfile: 'dist/leasehold.cjs' });
await build({ ...node, entryPoints: ['ts/wasm/quorum-beside.ts'], outfile: 'dist/quorum.cjs' });
for (const [text, outfile] of [['generated', 'dist/base64.cjs'], ['generated/quorum', 'dist/quorum-base64.cjs']]) {
  await build({ entryPoints: [`${text}/base64.js`], format: 'cjs', outfile });
}

const workerd = { ...common, format: 'esm', plugins: [{ name: 'workerd', setup: forWorkerd }] };
await build({ ...workerd, entryPoints: ['ts/wasm/quorum-workerd.ts'], outfile: 'dist/workerd-quorum.mjs' });
const { metafile } = await build({ ...workerd, outfile: 'dist/workerd.mjs', metafile: true });
const names = metafile.outputs['dist/workerd.mjs'].exports;
const listed = names.map((name) => `exports.${name} = leasehold.${name};\n`).join('');
writeFileSync('dist/index.cjs', `'use strict';\nconst leasehold = require('./leasehold.cjs');\n${listed}`);
// One copy of the code for both kinds of importers: two would be two engines, and errors of two classes.
writeFileSync('dist/index.mjs', `export {\n${names.map((name) => `  ${name},\n`).join('')}} from './index.cjs';\n`);

const types = await rollup({ input: 'ts/index.ts', plugins: [dts({ compilerOptions: { stripInternal: true } })] });
for (const file of ['dist/index.d.mts', 'dist/index.d.cts']) {
  await types.write({ file, format: 'es' });
  writeFileSync(file, withTypesAsTypes(readFileSync(file, 'utf8')));
}
await types.close();

// What the `.wasm` files are where a host or a bundler imports them as modules, as workerd does.
const compiled = `/** The engine, compiled and not instantiated. */
declare const compiled: WebAssembly.Module;
export default compiled;
`;
for (const file of ['dist/wasm.d.mts', 'dist/wasm.d.cts']) writeFileSync(file, compiled);

/** A class of which only the type is public comes out of the bundler as a value that does not exist. */
function withTypesAsTypes(text) {
  return text.replace(/^export \{ (.+) \};$/m, (_, list) => {
    const all = list.split(', ');
    const [values, only] = [all.filter((name) => names.includes(name)), all.filter((name) => !names.includes(name))];
    if (values.length !== names.length) throw new Error(`the types name ${values}, the code ${names}`);
    return `export { ${values.join(', ')} };\nexport type { ${only.join(', ')} };`;
  });
}

/** workerd makes no code from bytes: it gets the module as a file of its own. */
function forWorkerd(build) {
  startFrom(build, 'workerd');
  asItIs(build, /\/wasm\/quorum\.js$/, () => './workerd-quorum.mjs');
  asItIs(build, /\.wasm$/, (path) => path);
}

/** Node reads the file, and the text only where there is none. */
function withTextApart(build) {
  startFrom(build, 'beside');
  asItIs(build, /\/wasm\/quorum\.js$/, () => './quorum.cjs');
  asItIs(build, /\/base64\.js$/, (path) => (path.includes('/quorum/') ? './quorum-base64.cjs' : './base64.cjs'));
}

/** A file that stays one of its own in `dist`. */
function asItIs(build, filter, name) {
  build.onResolve({ filter }, ({ path }) => ({ path: name(path), external: true }));
}

function startFrom(build, name) {
  build.onResolve({ filter: /\/wasm\/inline\.(js|ts)$/ }, () => ({ path: `${process.cwd()}/ts/wasm/${name}.ts` }));
}
