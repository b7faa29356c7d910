// `leasehold/testing` in projects of users, with the test runners that they have. No server runs here.
//
// docs/testing.md has an example for each runner. It runs as printed.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const project = join(import.meta.dirname, '..');
const require = createRequire(import.meta.url);
const execute = promisify(execFile);
const page = readFileSync(join(project, 'docs/testing.md'), 'utf8');

/** How each runner runs all tests of a directory, and where the page's example goes. */
const RUNNERS = {
  'node:test': { printed: 'runners/node.test.mjs', words: ['--test', '--test-reporter=tap', 'runners/node.test.mjs'], passed: /^# pass 2$/m },
  'jest': {
    printed: 'runners/jest/printed.test.cjs', passed: /^Tests: +8 passed, 8 total$/m,
    words: ['node_modules/jest/bin/jest.js', '--rootDir', 'runners/jest', '--testMatch', '**/*.test.cjs', '--cacheDirectory', 'runners/jest/cache'],
  },
  'vitest': {
    printed: 'runners/vitest/printed.test.mjs', passed: /^ +Tests +8 passed \(8\)$/m,
    words: ['node_modules/vitest/vitest.mjs', 'run', '--root', 'runners/vitest'],
  },
};

for (const [runner, { printed, words, passed }] of Object.entries(RUNNERS)) {
  test(`the manual's example runs in ${runner}, and locks keep its fake time`, async () => {
    const [, code] = new RegExp(`^\`\`\`js ${runner}\\n([^]*?)^\`\`\`$`, 'm').exec(page) ?? assert.fail(`the page has no example for ${runner}`);
    writeFileSync(join(project, printed), code);
    // No runner prints colours, and Node's own doesn't see that it runs in a test.
    const { NODE_TEST_CONTEXT, FORCE_COLOR, REDIS_URL, ...env } = process.env;
    const failed = ({ stdout, stderr }) => assert.fail(`${stdout}\n${stderr}`);
    const { stdout, stderr } = await execute(process.execPath, words, { cwd: project, env: { ...env, NO_COLOR: '1', CI: '1' }, timeout: 600_000 }).catch(failed);
    assert.match(`${stdout}\n${stderr}`, passed);
  });
}

test('the server in memory is loaded by leasehold/testing only', async () => {
  const program = `
    const loaded = () => Object.keys(require.cache).filter((path) => /[\\\\/]dist[\\\\/](testing|memory)/.test(path)).length;
    require('leasehold');
    const before = loaded();
    require('leasehold/testing');
    console.log(before, loaded());`;
  const { stdout } = await execute(process.execPath, ['-e', program], { cwd: project });
  assert.equal(stdout, '0 1\n');
  for (const name of ['leasehold.cjs', 'index.cjs', 'workerd.mjs']) {
    assert.doesNotMatch(readFileSync(join(dirname(require.resolve('leasehold')), name), 'utf8'), /memory\.wasm|memory-base64/, name);
  }
});

test('import and require get the same server, whose errors are those of leasehold', async () => {
  const [imported, { UnreachableError }] = [await import('leasehold/testing'), await import('leasehold')];
  assert.equal(imported.MemoryServer, require('leasehold/testing').MemoryServer);
  const server = new imported.MemoryServer();
  server.stop();
  assert.throws(() => server.flush(), (error) => Object.getPrototypeOf(error) === UnreachableError.prototype);
});

test('it works without the WebAssembly file, as in a bundle', async () => {
  const bare = mkdtempSync(join(project, 'bare-'));
  cpSync(dirname(require.resolve('leasehold')), join(bare, 'dist'), { recursive: true });
  rmSync(join(bare, 'dist', 'memory.wasm'));
  const { MemoryServer } = require(join(bare, 'dist', 'testing.cjs'));
  const { LockManager } = require(join(bare, 'dist', 'index.cjs'));
  assert.equal(await new LockManager(new MemoryServer()).mutex('a').run(() => 'ran'), 'ran');
});
