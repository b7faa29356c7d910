// Programs of other libraries' users run after one changed import, beside processes that still use the other library.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const project = join(import.meta.dirname, '..');
const require = createRequire(import.meta.url);
const execute = promisify(execFile);
let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

const redlock = { dropIn: 'redlock', program: 'redlock', printed: 'true 1 of 1, 1 of 1, 1 of 1\n' };
const LIBRARIES = {
  'redlock': { ...redlock, types: 'redlock/dist' },
  '@sesamecare-oss/redlock': redlock,
  'redlock-4': { dropIn: 'redlock4', program: 'redlock4', types: '@types/redlock', printed: 'LockError 3\n' },
  'redis-semaphore': { dropIn: 'redis-semaphore', program: 'redis-semaphore', printed: 'true true\n' },
};

for (const [library, { dropIn, program, types, printed: expected }] of Object.entries(LIBRARIES)) {
  test(`a program of ${library}'s users compiles and runs after one changed import, beside the original`, async () => {
    const directory = join(project, `dropin-${library.replace('/', '-')}`);
    mkdirSync(directory, { recursive: true });
    let source = readFileSync(join(project, `types/${program}-user.ts`), 'utf8');
    // This fork of node-redlock 5 has no default export.
    if (library === '@sesamecare-oss/redlock') source = source.replace('import Redlock, {', 'import { Redlock,').replace(`from 'redlock'`, `from '${library}'`);
    const changed = source.replace(`from '${library}'`, `from 'leasehold/${dropIn}'`);
    assert.notEqual(changed, source);
    const programs = { 'original.mts': source, 'dropin.mts': changed, 'dropin.cts': changed };
    for (const [file, text] of Object.entries(programs)) writeFileSync(join(directory, file), text);
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({
      compilerOptions: {
        module: 'nodenext', moduleResolution: 'nodenext', target: 'es2022', lib: ['es2022'], types: ['node'], esModuleInterop: true,
        strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noPropertyAccessFromIndexSignature: true,
        // node-redlock's manifest hides its types from this resolution, or they are in a package of another name.
        ...(types && { paths: { [library]: [`../node_modules/${types}/index.d.ts`] } }),
      },
      files: Object.keys(programs),
    }));
    await execute(process.execPath, [join(project, 'node_modules/typescript/bin/tsc'), '--project', directory]).catch((error) => assert.fail(error.stdout));

    await server.cli('FLUSHALL');
    const runs = Object.keys(programs).map((file) => run(join(directory, file.replace('ts', 'js'))));
    for (const printed of await Promise.all(runs)) assert.equal(printed, expected);
    assert.equal(await server.cli('GET', 'count'), String(51 * runs.length));
  });
}

for (const dropIn of ['redlock', 'redis-semaphore']) {
  test(`leasehold/${dropIn} can be imported and required, and is one copy`, async () => {
    const [imported, required] = [await import(`leasehold/${dropIn}`), require(`leasehold/${dropIn}`)];
    for (const name of Object.keys(required)) assert.equal(imported[name], required[name], name);
  });
}

test('the default export of leasehold/redlock is the class, as in the original', async () => {
  const { default: Redlock } = await import('leasehold/redlock');
  assert.equal(Redlock.name, 'Redlock');
  assert.equal(require('leasehold/redlock').default, Redlock);
});

test('leasehold/redlock4 is the class itself, as in the original, and works without Bluebird', async () => {
  const Redlock = require('leasehold/redlock4');
  assert.equal((await import('leasehold/redlock4')).default, Redlock);
  assert.deepEqual([Redlock.name, Redlock.Lock.name, Redlock.LockError.name], ['Redlock', 'Lock', 'LockError']);
  const program = `
    const { Module } = require('node:module');
    const find = Module._resolveFilename;
    Module._resolveFilename = (name, ...others) => find(name === 'bluebird' ? 'not-installed' : name, ...others);
    const Redlock = require('leasehold/redlock4');
    const redis = new (require('ioredis').Redis)(process.env.REDIS_URL);
    const redlock = new Redlock([redis]);
    redlock.lock('native', 5_000, (error, lock) => {
      const promise = lock.unlock();
      let code;
      try { redlock.disposer('native', 5_000) } catch (error) { ({ code } = error) }
      promise.then(() => console.log(promise instanceof Promise, code), console.log).then(() => redlock.quit());
    });`;
  const { stdout } = await execute(process.execPath, ['--eval', program], { cwd: project, env: { ...process.env, REDIS_URL: server.url } });
  assert.equal(stdout, 'true unsupported\n');
});

test('a program that imports leasehold does not load the drop-ins', async () => {
  const program = `require('leasehold'); console.log(Object.keys(require.cache).filter((file) => /redlock|redis-semaphore/.test(file)).length);`;
  const { stdout } = await execute(process.execPath, ['--eval', program], { cwd: project });
  assert.equal(stdout, '0\n');
});

test('errors of a drop-in are errors of the package', async () => {
  const [{ default: Redlock }, { LeaseholdError }] = [await import('leasehold/redlock'), await import('leasehold')];
  assert.throws(() => new Redlock([]), (error) => error instanceof LeaseholdError && error.code === 'invalid-option');
});

async function run(file) {
  const { stdout } = await execute(process.execPath, [file], { cwd: project, timeout: 600_000, env: { ...process.env, REDIS_URL: server.url } });
  return stdout;
}
