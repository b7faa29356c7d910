// One trace shows how a service in Node and a service in Rust waited for one lock and held it.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const program = join(import.meta.dirname, '../examples/traced.mjs');
let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** The spans of a call from one service to another. */
async function spans(...command) {
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...command], {
    timeout: 600_000, env: { ...process.env, REDIS_URL: server.url, TRACEPARENT: '' },
  });
  return stdout.trim().split('\n').map((line) => JSON.parse(line));
}

test('one trace has the wait and the hold of a service in Node and of a service in Rust, with the same attributes', async () => {
  const began = performance.now();
  const all = await spans(join(process.env.LEASEHOLD_WORKERS, 'traced'));
  const took = performance.now() - began;
  const of = (service, name) => {
    const found = all.filter((span) => span.service === service && span.name === name);
    assert.equal(found.length, 1, `${service} ${name}: ${JSON.stringify(all)}`);
    return found[0];
  };
  assert.equal(all.length, 6);
  assert.deepEqual([...new Set(all.map(({ trace }) => trace))], [all[0].trace], 'all spans are in one trace');

  const [order, bill] = [of('node', 'order'), of('rust', 'bill')];
  assert.equal(bill.parent, order.span);
  for (const [service, request] of [['node', order], ['rust', bill]]) {
    const [acquire, hold] = [of(service, 'leasehold.acquire'), of(service, 'leasehold.hold')];
    assert.deepEqual([acquire.parent, hold.parent], [request.span, request.span], `${service}: both are children of the request`);
    assert.deepEqual(hold.links, [acquire.span]);
    assert.equal(acquire.attributes['leasehold.fence'], hold.attributes['leasehold.fence']);
  }
  for (const name of ['leasehold.acquire', 'leasehold.hold']) {
    const [node, rust] = [of('node', name).attributes, of('rust', name).attributes];
    const types = (attributes) => Object.entries(attributes).map(([key, value]) => `${key}: ${typeof value}`).sort();
    assert.deepEqual(types(rust), types(node));
    for (const key of ['leasehold.lock.name', 'leasehold.mode', 'leasehold.code', 'leasehold.local']) assert.equal(rust[key], node[key], key);
  }
  // The lock passed from one to the other.
  const [held, waited] = [of('node', 'leasehold.hold').attributes['leasehold.held_ms'], of('rust', 'leasehold.acquire').attributes['leasehold.waited_ms']];
  assert.ok(waited > 0 && waited < took && held < took, `it waited ${waited} ms while the other held ${held} ms, and all took ${took} ms`);
  assert.ok(of('rust', 'leasehold.hold').attributes['leasehold.fence'] > of('node', 'leasehold.hold').attributes['leasehold.fence']);
});
