// node-redlock 4's own tests, which are in its package, against the drop-in. The tests that fail are those of docs/drop-ins.md.
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
let servers;

before(async () => {
  servers = await Promise.all([startServer(), startServer(), startServer()]);
});
after(() => Promise.all(servers.map((server) => server.stop())));

const REFUSED = ['callbacks lockWithOptions should be backwards compatible', 'supports custom script functions in options'];

for (const count of [1, 3]) {
  test(`with ${count} ioredis clients, the original passes its own tests, and so does the drop-in except for what it refuses`, async () => {
    await fail('redlock-4', count, false, []);
    await fail('leasehold/redlock4', count, count > 1, REFUSED);
    if (count === 1) return;
    // Keys that are missing on all servers cost an attempt, and these tests allow one.
    const unchanged = await failures('leasehold/redlock4', count, false);
    for (const title of unchanged.filter((title) => !/ - multi /.test(title))) assert.ok(REFUSED.includes(title), title);
  });
}

/** These tests fail, and no others. Their locks last 200 ms, so on a busy machine they may fail for want of time, and are run again. */
async function fail(library, count, changed, expected) {
  let failed;
  for (let run = 0; run < 3; run++) {
    failed = await failures(library, count, changed);
    if (failed.length === expected.length) break;
  }
  assert.deepEqual(failed, expected);
}

/** Runs the tests in a process of their own, and returns the titles of those that fail. */
async function failures(library, count, changed) {
  const text = readFileSync(require.resolve('redlock-4/test.js'), 'utf8');
  let tests = text.slice(text.indexOf('function test('));
  if (changed) {
    // The lock of this test is held when the next tests delete its keys. The test gives it back.
    const at = tests.indexOf('done();', tests.indexOf('immediately after a resource is expired', tests.indexOf('callbacks - multi')));
    tests = `${tests.slice(0, at)}lock.unlock(done);${tests.slice(at + 'done();'.length)}`;
  }
  const ports = servers.slice(0, count).map(({ port }) => port);
  // An assertion that fails in `done` would end the process.
  const head = `
    const [{ assert }, Promise, Redlock, { Redis }] = [require('chai'), require('bluebird'), require('${library}'), require('ioredis')];
    Promise.prototype.done = function (...both) { this.then(...both).catch((error) => setImmediate(() => { throw error })) };
    test('suite', ${JSON.stringify(ports)}.map((port) => new Redis(port)));\n`;
  const directory = join(project, 'redlock4-suite');
  mkdirSync(directory, { recursive: true });
  const file = join(directory, `${library.replace('/', '-')}-${count}.cjs`);
  writeFileSync(file, head + tests);
  const mocha = [join(project, 'node_modules/mocha/bin/mocha.js'), '--exit', '--reporter', 'json', file];
  // It fails with the number of tests that failed.
  const { stdout } = await promisify(execFile)(process.execPath, mocha, { cwd: project, maxBuffer: 2 ** 26 }).catch((error) => error);
  const report = JSON.parse(stdout.slice(stdout.indexOf('{\n')));
  assert.equal(report.stats.tests, 56);
  return report.failures.map(({ fullTitle }) => fullTitle.replace('Redlock: suite ', '')).sort();
}
