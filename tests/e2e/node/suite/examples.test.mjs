// The programs in examples/node do what their comments say.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const examples = join(import.meta.dirname, '../examples');
const execute = promisify(execFile);
let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

async function run(program, ...words) {
  const { stdout } = await execute(process.execPath, [join(examples, program), ...words], {
    timeout: 600_000, env: { ...process.env, REDIS_URL: server.url },
  });
  return stdout;
}

test('a nightly job runs on one of three instances, and not again on a late one', async () => {
  const outputs = await Promise.all([1, 2, 3].map(() => run('nightly-job.mjs', '2030-01-01')));
  assert.equal(outputs.filter((output) => output.includes(': ran')).length, 1);
  assert.equal(outputs.filter((output) => output.includes(': done before')).length, 2);
  assert.equal(outputs.join('').match(/sent page/g).length, 3);
  assert.match(await run('nightly-job.mjs', '2030-01-01'), /done before/);
});

test('a nightly job whose instance was killed is run by the next one', async () => {
  const name = 'job:invoices:2030-01-02';
  // A dead instance: it has started the job, and its lease ends in a second.
  await server.cli('SET', name, 'dead', 'PX', '1000');
  await server.cli('HSET', `${name}:mark`, 'fence', '1');
  assert.match(await run('nightly-job.mjs', '2030-01-02'), /: ran/);
});

test('a nightly job does no work for an instance that a later one has overtaken', async () => {
  // Another instance has begun with a greater fence.
  await server.cli('HSET', 'job:invoices:2030-01-03:mark', 'fence', '9000000000000000');
  const error = await run('nightly-job.mjs', '2030-01-03').then(() => assert.fail('it ran'), (failed) => failed);
  assert.equal(error.stdout, '');
  assert.match(error.stderr, /another instance has taken over/);
});

test('a cached value is built once for a hundred requests', async () => {
  assert.match(await run('cache.mjs'), /^100 requests, 1 builds, 1234 orders$/m);
  assert.match(await run('cache.mjs'), /^100 requests, 0 builds, 1234 orders$/m);
});

test('a database that checks fences refuses the late write', async () => {
  assert.match(await run('checkout.mjs'), /^Ann's late write: refused; Bob's: done; paid by Bob$/m);
});

test('a request handler answers in time', async () => {
  assert.equal(await run('request-deadline.mjs'),
    '200 shipped order-1 with fence ...\n503 busy: try again\nthe client left: TimeoutError\n');
});
