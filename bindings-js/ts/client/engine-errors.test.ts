import assert from 'node:assert/strict';
import { test } from 'node:test';

import { NO_RIGHT, NOT_READY } from '../support/errors.generated.js';
import { isNotReady, refusalError } from './engine-errors.js';

test('a_servers_error_means_here_what_it_means_to_the_engine', () => {
  for (const code of NOT_READY) assert.ok(isNotReady(`${code} some text`) && isNotReady(`-${code} some text`), code);
  for (const words of NO_RIGHT) assert.equal(refusalError(`ERR it says ${words} there`, 'job', undefined).code, 'auth', words);
  assert.equal(refusalError('OOM command not allowed', 'job', undefined).code, 'server');
  assert.ok(!isNotReady('OOM command not allowed'));
});
