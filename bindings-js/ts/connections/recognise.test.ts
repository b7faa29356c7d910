import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';

import { Redis } from 'ioredis-6';

import { MemoryServer } from '../memory/index.js';
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
  const expected = /^`connection` must be an ioredis, node-redis or GLIDE client, or an object with a `call\(args\)` function/;
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

test('a_library_of_which_another_copy_is_loaded_is_recognised_by_what_it_does', (t) => {
  class Mine extends Redis {}
  const mine = new Mine({ lazyConnect: true });
  t.after(() => mine.disconnect());
  assert.equal(recognise(mine).library, 'ioredis');
  assert.equal(recognise({ call: async () => null }).library, 'custom');
  assert.equal(recognise(new MemoryServer()).library, 'memory');
});
