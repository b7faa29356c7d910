// The types work under every module resolution, and the compiled code runs on Node 20.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const project = join(import.meta.dirname, '..');
const execute = promisify(execFile);
let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

for (const moduleResolution of ['nodenext', 'bundler']) {
  test(`strict TypeScript compiles under ${moduleResolution}, and runs`, async () => {
    const directory = join(project, `typed-${moduleResolution}`);
    mkdirSync(directory, { recursive: true });
    // Under `nodenext`, each file is a module of its own kind and gets the types for that kind.
    const files = moduleResolution === 'nodenext' ? ['consumer.mts', 'consumer.cts'] : ['consumer.mts'];
    for (const file of files) copyFileSync(join(project, 'types/consumer.ts'), join(directory, file));
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({
      compilerOptions: {
        moduleResolution, module: moduleResolution === 'nodenext' ? 'nodenext' : 'esnext', target: 'es2022',
        lib: ['es2022', 'esnext.disposable'], types: ['node'],
        strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noPropertyAccessFromIndexSignature: true,
      },
      files,
    }));
    const compiler = join(project, 'node_modules/typescript/bin/tsc');
    await execute(process.execPath, [compiler, '--project', directory]).catch((error) => assert.fail(error.stdout));
    for (const file of files) {
      const { stdout } = await execute(process.execPath, [join(directory, file.replace('ts', 'js'))], {
        env: { ...process.env, REDIS_URL: server.url }, timeout: 600_000,
      });
      assert.equal(stdout, 'typed released true\n');
    }
  });
}

test('the types accept the clients of every library, and nothing else', async () => {
  const words = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--target', 'es2022',
    '--lib', 'es2022,esnext.disposable', '--types', 'node', '--skipLibCheck', 'types/connections.ts'];
  const compiler = join(project, 'node_modules/typescript/bin/tsc');
  await execute(process.execPath, [compiler, ...words], { cwd: project }).catch((error) => assert.fail(error.stdout));
});

for (const file of ['nestjs.cts', 'nestjs.mts']) {
  test(`a NestJS application compiles with the metadata of decorators, and runs, as ${file}`, async () => {
    const directory = join(project, `typed-${file}`);
    mkdirSync(directory, { recursive: true });
    copyFileSync(join(project, 'types/nestjs.ts'), join(directory, file));
    writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({
      compilerOptions: {
        module: 'nodenext', target: 'es2022', types: ['node'], strict: true, experimentalDecorators: true, emitDecoratorMetadata: true, skipLibCheck: true,
      },
      files: [file],
    }));
    const compiler = join(project, 'node_modules/typescript/bin/tsc');
    await execute(process.execPath, [compiler, '--project', directory]).catch((error) => assert.fail(error.stdout));
    const { stdout } = await execute(process.execPath, [join(directory, file.replace('ts', 'js'))], { timeout: 600_000 });
    assert.equal(stdout, 'paid 5 under order:7, held 1\nrows of monday\nleads true\n{"locks":{"status":"up"}}\n');
  });
}

test('the NestJS examples are strict TypeScript', async () => {
  const compiler = join(project, 'node_modules/typescript/bin/tsc');
  await execute(process.execPath, [compiler, '--project', join(project, 'examples')]).catch((error) => assert.fail(error.stdout));
});
