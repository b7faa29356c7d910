/** Tests a part whose file a deployment didn't copy. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { isLeaseholdError } from '../index.js';
import { caught } from '../testing/expect.js';
import { loadPart } from './part.js';

test('a_part_whose_file_is_missing_is_unsupported_and_tells_the_import', async (t) => {
  // The package's files are CommonJS, and the tests are not.
  Object.assign(globalThis, { module: { require: createRequire(import.meta.url) }, require: () => ({ parts: {} }) });
  t.after(() => ['module', 'require'].forEach((name) => Reflect.deleteProperty(globalThis, name)));
  const error = await caught(Promise.resolve().then(() => loadPart('quorum', 'a quorum', 'leasehold/quorum')));
  assert.ok(isLeaseholdError(error, 'unsupported') && /import 'leasehold\/quorum'/.test(error.message), String(error));
});
