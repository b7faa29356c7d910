/** All managers that share a client have one listener for each of its events. */

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';

import { watch } from './watch.js';

test('a_watcher_that_stops_twice_leaves_the_later_ones_alone', () => {
  const client = new EventEmitter();
  const heard: string[] = [];
  const begin = (name: string): (() => void) => watch(client, { ready: () => heard.push(name) });
  const stopFirst = begin('first');
  stopFirst();
  const stopSecond = begin('second');
  stopFirst();
  const stopThird = begin('third');
  assert.equal(client.listenerCount('ready'), 1);
  client.emit('ready');
  assert.deepEqual(heard, ['second', 'third']);
  stopSecond();
  stopThird();
  assert.equal(client.listenerCount('ready'), 0);
});
