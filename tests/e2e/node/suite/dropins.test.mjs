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

const PRINTED = { 'redlock': 'true 1 of 1, 1 of 1, 1 of 1\n', 'redis-semaphore': 'true true\n' };

for (const library of Object.keys(PRINTED)) {
  test(`a program of ${library}'s users compiles and runs after one changed import, beside the original`, async () => {
    const directory = join(project, `dropin-${library}`);
    mkdirSync(directory, { recursive: true });
    const source = readFileSync(join(project, `types/${library}-user.ts`), 'utf8');
    const changed = source.replace(`from '${library}'`, `from 'leasehold/${library}'`);
    assert.notEqual(changed, source);
    const programs = { 'original.mts': source, 'dropin.mts': changed, 'dropin.cts': changed };
    for (const [file, text] of Object.entries(programs)) writeFileSync(join(directory, file), text);
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({
      compilerOptions: {
        module: 'nodenext', moduleResolution: 'nodenext', target: 'es2022', lib: ['es2022'], types: ['node'], esModuleInterop: true,
        strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noPropertyAccessFromIndexSignature: true,
        // node-redlock's manifest hides its types from this resolution.
        ...(library === 'redlock' && { paths: { redlock: ['../node_modules/redlock/dist/index.d.ts'] } }),
      },
      files: Object.keys(programs),
    }));
    await execute(process.execPath, [join(project, 'node_modules/typescript/bin/tsc'), '--project', directory]).catch((error) => assert.fail(error.stdout));

    await server.cli('FLUSHALL');
    const runs = Object.keys(programs).map((file) => run(join(directory, file.replace('ts', 'js'))));
    for (const printed of await Promise.all(runs)) assert.equal(printed, PRINTED[library]);
    assert.equal(await server.cli('GET', 'count'), String(51 * runs.length));
  });

  test(`leasehold/${library} can be imported and required, and is one copy`, async () => {
    const [imported, required] = [await import(`leasehold/${library}`), require(`leasehold/${library}`)];
    for (const name of Object.keys(required)) assert.equal(imported[name], required[name], name);
  });
}

test('the default export of leasehold/redlock is the class, as in the original', async () => {
  const { default: Redlock } = await import('leasehold/redlock');
  assert.equal(Redlock.name, 'Redlock');
  assert.equal(require('leasehold/redlock').default, Redlock);
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
