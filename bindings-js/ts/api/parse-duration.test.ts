/** A duration from an environment variable or a file becomes an option. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isLeaseholdError, LockManager, parseDuration } from '../index.js';
import { MemoryServer } from '../memory/index.js';

test('a_text_becomes_milliseconds_that_every_option_takes', async (t) => {
  const env: Record<string, string | undefined> = { LOCK_TTL: '90s' };
  const locks = new LockManager(new MemoryServer(), { ttl: parseDuration(env.LOCK_TTL, 'LOCK_TTL'), wait: parseDuration(env.LOCK_WAIT ?? '5s') });
  t.after(() => locks.close());
  const lease = await locks.mutex('a').acquire();
  assert.ok(lease.remaining > 80_000);
  const texts: [string | number, number][] = [['500ms', 500], ['1.5s', 1_500], ['5 m', 300_000], ['1h', 3_600_000], ['2d', 172_800_000], ['0s', 0], [250, 250]];
  for (const [text, millis] of texts) assert.equal(parseDuration(text), millis);
});

test('a_text_that_is_no_duration_is_refused_with_the_name_of_its_variable', () => {
  for (const value of [undefined, '', '30', 'soon', '1h 5m', '-1s', ' 1s', -1, NaN, Infinity, null, {}, Symbol('x')]) {
    const refused = (field: string) => (error: unknown): boolean => isLeaseholdError(error, 'invalid-option') && error.field === field && error.message.includes(field);
    assert.throws(() => parseDuration(value as string, 'LOCK_TTL'), refused('LOCK_TTL'));
    assert.throws(() => parseDuration(value as string), refused('duration'));
  }
});
