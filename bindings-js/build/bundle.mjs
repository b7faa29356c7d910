// Builds dist/, which users get, from ts/ and generated/.
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
copyFileSync('generated/memory/memory.wasm', 'dist/memory.wasm');

const common = {
  entryPoints: ['ts/index.ts'],
  bundle: true,
  platform: 'neutral',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  // `sideEffects` in package.json is about the published files. In the sources, starting the WebAssembly is a side effect.
  ignoreAnnotations: true,
  logLevel: 'warning',
};

// When a module imports a CommonJS file, Node scans the whole file for its exports. So a small file lists them, and requires the
// big one.
// A dynamic import becomes a late `require`, because hosts with their own CommonJS, such as Jest, don't support `import()`.
// The text coders take the place of the globals, also in the code that wasm-bindgen writes.
const node = { ...common, format: 'cjs', inject: ['ts/support/text-coders.ts'], supported: { 'dynamic-import': false }, plugins: [{ name: 'node', setup: withTextApart }] };
await build({ ...node, outfile: 'dist/leasehold.cjs' });
// The program of the worker that renews leases, as text: a bundle of the user's program has no file beside it. It has no imports, so it runs as
// CommonJS and as an ES module.
const worker = { ...common, entryPoints: ['ts/renewer/worker.ts'], platform: 'node', format: 'iife', minifyWhitespace: true, minifySyntax: true, write: false };
const [{ text: source }] = (await build(worker)).outputFiles;
writeFileSync('dist/renewer.cjs', `exports.source = ${JSON.stringify(source)};\n`);
await build({ ...node, entryPoints: ['ts/engine/wasm/quorum-beside.ts'], outfile: 'dist/quorum.cjs' });
for (const [text, outfile] of [['generated', 'dist/base64.cjs'], ['generated/quorum', 'dist/quorum-base64.cjs'], ['generated/memory', 'dist/memory-base64.cjs']]) {
  await build({ entryPoints: [`${text}/base64.js`], format: 'cjs', outfile });
}

// A bundler must see no way to the two parts that few programs need. So `leasehold.cjs` loads them in a way of its own, or from here. The
// entry points `leasehold/quorum` and `leasehold/renew-in` put them here.
await build({ ...common, entryPoints: ['ts/support/parts.ts'], format: 'cjs', outfile: 'dist/parts.cjs' });
for (const [entry, part] of [['quorum', 'quorum'], ['renew-in', 'renewer']]) {
  writeFileSync(`dist/with-${entry}.cjs`, `'use strict';\nrequire('./parts.cjs').parts.${part} = () => require('./${part}.cjs');\n`);
  writeFileSync(`dist/with-${entry}.mjs`, `import './with-${entry}.cjs';\n`);
  for (const end of ['mts', 'cts']) writeFileSync(`dist/with-${entry}.d.${end}`, 'export {};\n');
}

const workerd = { ...common, format: 'esm', plugins: [{ name: 'workerd', setup: forWorkerd }] };
await build({ ...common, entryPoints: ['ts/support/parts.ts'], format: 'esm', outfile: 'dist/workerd-parts.mjs' });
writeFileSync('dist/workerd-with-quorum.mjs', `import wasm from './quorum.wasm';\nimport { parts } from './workerd-parts.mjs';\n\nparts.quorum = () => wasm;\n`);
await build({ ...workerd, entryPoints: ['ts/engine/wasm/quorum-workerd.ts'], outfile: 'dist/workerd-quorum.mjs' });
const { metafile } = await build({ ...workerd, outfile: 'dist/workerd.mjs', metafile: true });
const names = metafile.outputs['dist/workerd.mjs'].exports;
const listed = names.map((name) => `exports.${name} = leasehold.${name};\n`).join('');
writeFileSync('dist/index.cjs', `'use strict';\nconst leasehold = require('./leasehold.cjs');\n${listed}`);
// `import` and `require` share one copy of the code. Two copies would be two engines, and two classes for each error.
const list = names.map((name) => `  ${name},\n`).join('');
writeFileSync('dist/index.mjs', `export {\n${list}} from './index.cjs';\n`);
// An `import` of a CommonJS file makes Node scan the file, however small. V8 then optimises the scanner in the background, which takes
// more processor time than all of the package's code. A `require` scans nothing. Bundlers don't follow it, so they get the file above. So the
// condition for this file is `module-sync`, which Node 20.19, 22.10 and newer have. Some bundlers also have the condition `node`.
writeFileSync('dist/node.mjs', `import { createRequire } from 'node:module';\n\nexport const {\n${list}} = createRequire(import.meta.url)('./index.cjs');\n`);

const types = await rollup({ input: 'ts/index.ts', plugins: [dts({ compilerOptions: { stripInternal: true } })] });
for (const file of ['dist/index.d.mts', 'dist/index.d.cts']) {
  await types.write({ file, format: 'es' });
  writeFileSync(file, withTypesAsTypes(readFileSync(file, 'utf8')));
}
await types.close();

// Programs import this next to `leasehold`. It has no code in common with it, and only the types refer to each other.
for (const [format, end] of [['esm', 'mjs'], ['cjs', 'cjs']]) {
  await build({ ...common, format, entryPoints: ['ts/opentelemetry.ts'], packages: 'external', outfile: `dist/opentelemetry.${end}` });
}
const tracing = await rollup({
  input: 'ts/opentelemetry.ts',
  external: (id) => id.startsWith('@opentelemetry/') || id.endsWith('/index.js'),
  plugins: [dts({ compilerOptions: { stripInternal: true } })],
});
for (const end of ['mts', 'cts']) {
  await tracing.write({ file: `dist/opentelemetry.d.${end}`, format: 'es', paths: (id) => (id.startsWith('@') ? id : `./index.${end[0]}js`) });
}
await tracing.close();

// The drop-ins use the same copy of the package as the program, which may import both. They are for Node, Bun and Deno, as ioredis is.
for (const name of ['redlock', 'redlock4', 'redis-semaphore']) {
  const dropIn = { entryPoints: [`ts/dropins/${name}.ts`], platform: 'node', format: 'cjs', outfile: `dist/${name}.cjs`, external: ['bluebird'] };
  // node-redlock 4 is CommonJS only, and exports the class itself.
  const footer = name === 'redlock4' ? { js: 'module.exports = module.exports.Redlock;' } : {};
  await build({ ...common, ...dropIn, footer, plugins: [{ name: 'package', setup: forDropIns }] });
  await writeTypes(name, `ts/dropins/${name}.ts`, name === 'redlock' ? ['m', 'c'] : ['c']);
}
writeFileSync('dist/redlock4.d.cts', withClassAsExport(readFileSync('dist/redlock4.d.cts', 'utf8')));
// redis-semaphore is CommonJS only, so a program may import it as a whole. The drop-in is the same.
writeFileSync('dist/redlock.mjs', `export { Redlock as default, ExecutionError, Lock, Redlock, ResourceLockedError } from './redlock.cjs';\n`);

// So does the module for NestJS. But it has a copy for `import`: Nest 12 is an ES module, which loaders such as tsx load a second time for
// `require`, and Nest knows its own providers by their classes.
for (const [format, end] of [['esm', 'm'], ['cjs', 'c']]) {
  const nest = { entryPoints: ['ts/nestjs/index.ts'], packages: 'external', platform: 'node', format, outfile: `dist/nestjs.${end}js` };
  await build({ ...common, ...nest, plugins: [{ name: 'package', setup: (build) => asItIs(build, /\/index\.js$/, () => `./index.${end}js`) }] });
}
await writeTypes('nestjs', 'ts/nestjs/index.ts', ['m', 'c']);

// The adapters for one service or host each. They import the package by its name, so that workerd and Node each get their own build of it.
for (const name of ['upstash', 'bun', 'cloudflare']) {
  const external = (id) => id === 'bun' || id === 'cloudflare:sockets' || id.endsWith('/index.js');
  const adapter = { ...common, entryPoints: [`ts/adapters/${name}.ts`], external: ['bun', 'cloudflare:sockets'], plugins: [{ name: 'package', setup: (build) => asItIs(build, /\/index\.js$/, () => 'leasehold') }] };
  const types = await rollup({ input: `ts/adapters/${name}.ts`, external, plugins: [dts({ compilerOptions: { stripInternal: true } })] });
  for (const [format, end] of [['esm', 'm'], ['cjs', 'c']]) {
    await build({ ...adapter, format, outfile: `dist/${name}.${end}js` });
    await types.write({ file: `dist/${name}.d.${end}ts`, format: 'es', paths: (id) => (id.endsWith('/index.js') ? `./index.${end}js` : id) });
  }
  await types.close();
}

// The server in memory uses the package's own errors, and gives managers a link. Nothing else is in both.
await build({ ...node, platform: 'node', entryPoints: ['ts/memory/index.ts'], outfile: 'dist/testing.cjs', plugins: [{ name: 'testing', setup: forTesting }] });
const testing = await rollup({
  input: 'ts/memory/index.ts',
  plugins: [dts({ compilerOptions: { stripInternal: true } })],
});
for (const end of ['mts', 'cts']) await testing.write({ file: `dist/testing.d.${end}`, format: 'es' });
await testing.close();
writeFileSync('dist/testing.mjs', `export { Clock, MemoryServer } from './testing.cjs';\n`);

// So does the connection to a server that refuses scripts.
await build({ ...node, platform: 'node', entryPoints: ['ts/transactions/index.ts'], outfile: 'dist/without-scripts.cjs', plugins: [{ name: 'transactions', setup: forTesting }] });
const transactions = await rollup({
  input: 'ts/transactions/index.ts',
  plugins: [dts({ compilerOptions: { stripInternal: true } })],
  external: (id) => id.endsWith('/connections/index.js'),
});
for (const end of ['mts', 'cts']) {
  await transactions.write({ file: `dist/without-scripts.d.${end}`, format: 'es', paths: (id) => (id.endsWith('/index.js') ? `./index.${end[0]}js` : id) });
}
await transactions.close();
writeFileSync('dist/without-scripts.mjs', `export { withoutScripts } from './without-scripts.cjs';\n`);

// The types of the `.wasm` files, for hosts and bundlers that import them as modules, as workerd does.
const compiled = `/** The compiled engine, not instantiated. */
declare const compiled: WebAssembly.Module;
export default compiled;
`;
for (const file of ['dist/wasm.d.mts', 'dist/wasm.d.cts']) writeFileSync(file, compiled);

/** Writes the types of an entry point that imports those of the package and of other packages. */
async function writeTypes(name, input, ends) {
  const external = (id) => /^(ioredis|@nestjs\/.*|node:.*)$/.test(id) || id.endsWith('/index.js');
  const types = await rollup({ input, external, plugins: [dts({ compilerOptions: { stripInternal: true } })] });
  for (const end of ends) {
    await types.write({ file: `dist/${name}.d.${end}ts`, format: 'es', paths: (id) => (id.endsWith('/index.js') ? `./index.${end}js` : id) });
  }
  await types.close();
}

/**
 * The types of a module that is the class `Redlock`: all other types are in its namespace, also the classes that are its static fields.
 * A program without the types of Bluebird gets `any` for them, and no error.
 */
function withClassAsExport(text) {
  const own = /^\/\*\* A client of ioredis\. The original .*^}$(?=\n\/\*\*\n \* Locks over)/ms.exec(text)?.[0];
  const [callback] = /^\/\*\* What node-redlock 4 calls .*\ntype Callback.*\n/m.exec(text) ?? [];
  if (own === undefined || callback === undefined) throw new Error('the types of redlock4 have another form');
  const inside = `${callback}${own}`.replace(/^declare class/gm, 'class').replace(/^(?=.)/gm, '    ');
  const names = ['Callback', 'CompatibleRedisClient', 'Lock', 'LockError', 'LockOptions', 'Options'];
  const outside = names.map((name) => `import ${name} = Redlock.${name};\n`).join('');
  return text.replace(callback, '').replace(own, () => `declare namespace Redlock {\n${inside}\n}\n${outside}`).replace(/^ +static readonly .*\n/gm, '').replace(/^export [^]*/m, 'export = Redlock;\n')
    .replace(/^import Bluebird .*/m, `// @ts-ignore\nimport Bluebird = require('bluebird');`);
}

/** Exports types as types. The bundler exports a class of which only the type is public as a value, which doesn't exist. */
function withTypesAsTypes(text) {
  return text.replace(/^export \{ (.+) \};$/m, (_, list) => {
    const all = list.split(', ');
    const [values, only] = [all.filter((name) => names.includes(name)), all.filter((name) => !names.includes(name))];
    if (values.length !== names.length) throw new Error(`the types export ${values}, but the code exports ${names}`);
    return `export { ${values.join(', ')} };\nexport type { ${only.join(', ')} };`;
  });
}

/** workerd doesn't compile WebAssembly from bytes, so it gets the module as a file. */
function forWorkerd(build) {
  startFrom(build, 'workerd');
  asItIs(build, /\/wasm\/quorum\.js$/, () => './workerd-quorum.mjs');
  asItIs(build, /\/parts\.js$/, () => './workerd-parts.mjs');
  renewFrom(build, 'none');
  asItIs(build, /\.wasm$/, (path) => path);
}

/** Node reads the WebAssembly file, and the base64 text only if there is no file. */
function withTextApart(build) {
  startFrom(build, 'beside');
  build.onResolve({ filter: /\/wasm\/quorum\.js$/ }, () => ({ path: `${process.cwd()}/ts/engine/wasm/quorum-apart.ts` }));
  asItIs(build, /\/parts\.js$/, () => './parts.cjs');
  renewFrom(build, 'text');
  asItIs(build, /\/base64\.js$/, (path) => (path.includes('/quorum/') ? './quorum-base64.cjs' : './base64.cjs'));
}

/** A bundler follows a plain `require`, but no `createRequire`. */
function forDropIns(build) {
  asItIs(build, /\/index\.js$/, () => './index.cjs');
  build.onResolve({ filter: /\/bluebird\/own\.js$/ }, () => ({ path: `${process.cwd()}/ts/dropins/bluebird/required.ts` }));
}

function forTesting(build) {
  startFrom(build, 'beside');
  asItIs(build, /\/errors\.js$/, () => './index.cjs');
  asItIs(build, /\/base64\.js$/, () => './memory-base64.cjs');
}

/** Keeps a file separate in `dist`. */
function asItIs(build, filter, name) {
  build.onResolve({ filter }, ({ path }) => ({ path: name(path), external: true }));
}

/** Where the program of the worker comes from. */
function renewFrom(build, name) {
  build.onResolve({ filter: /\/program\/own\.js$/ }, () => ({ path: `${process.cwd()}/ts/renewer/program/${name}.ts` }));
}

function startFrom(build, name) {
  build.onResolve({ filter: /\/wasm\/inline\.(js|ts)$/ }, ({ importer }) => ({
    path: `${process.cwd()}/ts/${importer.includes('/server/') ? 'server' : 'engine'}/wasm/${name}.ts`,
  }));
}
