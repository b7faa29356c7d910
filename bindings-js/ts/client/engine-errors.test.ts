import assert from 'node:assert/strict';
import { test } from 'node:test';

import { REFUSALS } from '../testing/refusals.generated.js';
import { isNotReady, refusalError } from './engine-errors.js';

test('a_servers_error_means_here_what_it_means_to_the_engine', () => {
  for (const [text, meaning] of REFUSALS) {
    // Another server has the slot. Drivers follow these, so the engine has no meaning for them.
    const isElsewhere = /^(?:MOVED|ASK) /.test(text);
    assert.equal(isNotReady(text), meaning === 'not-ready' || isElsewhere, text);
    assert.equal(refusalError(text, 'job', undefined).code, meaning === 'auth' ? 'auth' : 'server', text);
  }
});

test('a_server_without_enough_replicas_is_not_ready', () => {
  const meanings = REFUSALS.filter(([text]) => /\bNOREPLICAS\b/.test(text)).map(([, meaning]) => meaning);
  assert.deepEqual(new Set(meanings), new Set(['not-ready']));
});
