// What readers search for, and the section that must come first. `cargo xtask docs` runs this on the site that it built.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import MiniSearch from 'minisearch';

import { search } from './search.mjs';

const WANTED = {
  'leader election': 'recipes.html#leader-election',
  'axum': 'recipes.html#a-web-service-axum-fastify',
  'fastify': 'recipes.html#a-web-service-axum-fastify',
  'nestjs': 'frameworks.html#nestjs',
  'bullmq': 'frameworks.html#bullmq',
  'CancellationToken': 'frameworks.html#cancellation-tokens',
  'max_hold': 'options.html#options-of-a-lock',
  'maxHold': 'options.html#options-of-a-lock',
  'local_handoffs': 'options.html#options-of-a-manager',
  'SIGTERM': 'shutting-down.html#shutting-down',
  'graceful shutdown': 'shutting-down.html#shutting-down',
  'terminationGracePeriodSeconds': 'shutting-down.html#how-long',
  'scheduled job': 'recipes.html#a-job-on-a-schedule',
  'nightly job': 'recipes.html#a-job-on-a-schedule',
  'cron': 'recipes.html#cron',
  'node-cron': 'recipes.html#node-cron',
  'github actions': 'cli.html#a-lock-over-several-steps',
  'lock a pipeline': 'cli.html#a-lock-over-several-steps',
  'semaphore': 'kinds.html#semaphore',
  'read write lock': 'kinds.html#read-write-lock',
  'reentrant': 'kinds.html#reentrant-lock',
  'redlock': 'topologies.html#quorum',
  'sentinel': 'topologies.html#sentinel',
  'fencing token': 'guarantees.html#fencing-tokens',
  'postgres': 'fencing.html#postgresql',
  'fake timers': 'testing.html#your-tests-in-javascript',
  'opentelemetry': 'events.html#opentelemetry',
  'prometheus': 'metrics.html#metrics',
  'eviction': 'servers.html#memory-and-eviction',
  'cloudflare': 'edge.html#cloudflare-workers',
  'wrong-kind': 'errors.html#errors',
  'stuck lock': 'operations.html#a-lock-seems-to-hang',
  'who holds the lock': 'operations.html#a-lock-seems-to-hang',
  'lock was lost': 'operations.html#lost',
  'key without a ttl': 'operations.html#a-lock-seems-to-hang',
  'server down': 'operations.html#unreachable',
  'wrong password': 'operations.html#auth',
  'redis-cli': 'operations.html#without-the-command-line',
  'config file': 'options.html#options-from-a-config-file',
  'migrate from redisson': 'migrating.html#from-redisson',
};

const site = process.env.LEASEHOLD_SITE ?? resolve(import.meta.dirname, 'dist');
const chunks = join(site, 'assets/chunks');
const chunk = readdirSync(chunks).find((name) => name.startsWith('@localSearchIndexroot'));
const { default: json } = await import(pathToFileURL(join(chunks, chunk)));
const { options, searchOptions } = search;
const index = MiniSearch.loadJSON(json, { storeFields: ['title', 'titles'], searchOptions, ...options });

for (const [query, section] of Object.entries(WANTED)) {
  test(`"${query}" leads to ${section}`, () => {
    const found = index.search(query).slice(0, 5).map(({ id }) => id);
    assert.equal(found[0]?.replace(/^.*\//, ''), section, found.join('\n'));
  });
}

test('a section for the site\'s makers is found only after those for its readers', () => {
  assert.doesNotMatch(index.search('lost reply')[0].id, /articles|design/);
});
