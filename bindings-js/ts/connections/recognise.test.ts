import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Redis } from 'ioredis-6';

import { MemoryServer } from '../memory/index.js';
import { libraryNames } from '../testing/libraries.js';
import { recognise } from './recognise.js';

const refused = (connection: unknown, message: RegExp): void =>
  assert.throws(
    () => recognise(connection),
    (error: unknown) => {
      assert.ok(error instanceof TypeError);
      assert.equal((error as { code?: string }).code, 'invalid-option');
      assert.equal((error as { field?: string }).field, 'connection');
      assert.match(error.message, message);
      return true;
    },
  );

test('what_is_no_connection_is_refused_at_once_with_what_would_be_one', () => {
  const expected = /^`connection` must be an ioredis, .+ client, or an object with a `call\(args\)` function/;
  for (const odd of [undefined, null, 0, 1n, true, Symbol('x'), {}, [], new Map(), new EventEmitter(), { call: 'text' }, Object.create(null)]) {
    refused(odd, expected);
  }
  refused('redis://127.0.0.1', /not an address: connect a client first$/);
  refused(new URL('redis://127.0.0.1'), /not an address: connect a client first$/);
  refused(Redis, /not a class or a function: create a client first$/);
  refused(() => {}, /not a class or a function/);
  refused([new EventEmitter()], /not a list: a manager uses one server; `LockManager.quorum` takes a list$/);
  refused(Promise.resolve({}), /not a promise: await it first$/);
  // What ioredis-mock looks like. It runs no Lua of its own.
  class Mock extends EventEmitter {
    duplicate(): void {}
    defineCommand(): void {}
  }
  // What a client of node-redis 3 looks like.
  class Older extends EventEmitter {
    exec(): void {}
    sendCommand(): void {}
    send_command(): void {}
    internal_send_command(): void {}
  }
  refused(new Older(), /a client of node-redis 3 can't be used: use ioredis, or node-redis 4.2 or newer$/);
  refused(new Mock(), /not a mock: in a test, use `MemoryServer` of `leasehold\/testing`$/);
});

test('a_library_is_in_the_types_the_messages_and_the_manual', () => {
  const read = (file: string): string => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
  const packages = [...read('bindings-js/ts/testing/libraries.ts').matchAll(/import\('([^']+?)(?:-\d)?'\)/g)].map(([, name]) => `from '${name}`);
  const types = [...read('bindings-js/ts/connections/recognise.ts').matchAll(/^export interface (\w+Connection)/gm)].map(([, name = '']) => name);
  assert.ok(packages.length >= 6 && types.length >= 6, `${packages} ${types}`);
  const rows = (file: string, heading: string): string => read(file).split(`\n## ${heading}\n`)[1]?.split('\n- ')[0] ?? '';
  const messages = read('bindings-js/ts/client/driver.ts').split('const NEEDS_CONNECTIONS')[1]?.split('\n')[0] ?? '';
  const places: Record<string, [text: string, words: readonly string[]]> = {
    'the types of e2e/node': [read('tests/e2e/node/types/connections.ts'), packages],
    'connections/index.ts': [read('bindings-js/ts/connections/index.ts'), types],
    'index.ts': [read('bindings-js/ts/index.ts'), types],
    'NEEDS_CONNECTIONS in driver.ts': [messages, libraryNames],
    'bindings-js/README.md': [rows('bindings-js/README.md', 'Connections'), libraryNames],
    'docs/topologies.md': [rows('docs/topologies.md', 'Connections of the npm package'), libraryNames],
  };
  const missing = Object.entries(places).flatMap(([place, [text, words]]) =>
    words.filter((word) => !text.toLowerCase().includes(word.toLowerCase())).map((word) => `${place}: ${word}`));
  assert.deepEqual(missing, []);
  for (const name of libraryNames) refused({}, new RegExp(name, 'i'));
});

test('a_library_of_which_another_copy_is_loaded_is_recognised_by_what_it_does', (t) => {
  class Mine extends Redis {}
  const mine = new Mine({ lazyConnect: true });
  t.after(() => mine.disconnect());
  assert.equal(recognise(mine).library, 'ioredis');
  assert.equal(recognise({ call: async () => null }).library, 'custom');
  assert.equal(recognise(new MemoryServer()).library, 'memory');
});
