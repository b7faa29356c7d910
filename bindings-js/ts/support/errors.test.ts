import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';

import * as index from '../index.js';
import { ERROR_CODES } from './errors.generated.js';
import * as ours from './errors.js';

const { BusyError, ClosedError, InvalidOptionError, isLeaseholdError, LeaseholdError, LostError } = ours;

test('an_error_tells_what_a_log_line_needs', () => {
  const error = new BusyError({ lockName: 'invoice:42', waited: 250, holderRemaining: 7_000, cause: undefined });
  assert.deepEqual({ ...error }, { code: 'busy', retryable: true, lockName: 'invoice:42', waited: 250, holderRemaining: 7_000 });
  assert.equal(error.name, 'BusyError');
  assert.match(error.message, /^lock `invoice:42`: busy after 250 ms; .* in 7 s$/);
  assert.match(error.stack ?? '', /^Error: .*|BusyError/);
  assert.ok(!('cause' in error));
  assert.deepEqual({ ...new ClosedError() }, { code: 'closed', retryable: false });
  assert.match(inspect(new LostError('a', 'gone')), /LostError.*\n[^]*reason: 'gone'/);
});

test('the_package_exports_the_class_of_every_error', () => {
  const codes = Object.values(index).flatMap((it) => (typeof it === 'function' && 'code' in it ? [it.code] : []));
  assert.deepEqual(codes.sort(), [...ERROR_CODES].sort());
});

test('the_cause_is_kept_and_not_printed_twice', () => {
  const cause = new Error('the socket');
  const error = new ClosedError({ cause });
  assert.equal(error.cause, cause);
  assert.ok(!Object.keys(error).includes('cause'));
});

test('guards_and_instanceof_know_the_errors_of_every_copy_of_the_package', async () => {
  const copy = (await import(`./errors.js?${'copy'}`)) as typeof ours;
  assert.notEqual(copy.BusyError, BusyError);
  const theirs = new copy.BusyError({ lockName: 'a', waited: 1 });
  for (const error of [theirs, new BusyError({ lockName: 'a', waited: 1 })]) {
    assert.ok(isLeaseholdError(error) && isLeaseholdError(error, 'busy') && !isLeaseholdError(error, 'lost'));
    assert.ok(error instanceof LeaseholdError && error instanceof BusyError && error instanceof Error);
    assert.ok(!((error as unknown) instanceof LostError) && !((error as unknown) instanceof InvalidOptionError));
  }
  const option = new InvalidOptionError('ttl', 'is wrong');
  assert.ok((option as unknown) instanceof LeaseholdError && option instanceof TypeError && isLeaseholdError(option, 'invalid-option'));
});

test('a_guard_takes_anything', () => {
  const hostile = new Proxy({}, { get: () => assert.fail('read') });
  for (const value of [undefined, null, 7, 'busy', new Error('busy'), { code: 'busy' }, Object.create(null), () => {}, hostile]) {
    assert.equal(isLeaseholdError(value), false);
    assert.equal((value as unknown) instanceof LeaseholdError, false);
  }
});

test('instanceof_narrows_by_code', () => {
  const told = (error: unknown): unknown => {
    if (!(error instanceof LeaseholdError)) return 'not ours';
    const retryable: boolean = error.retryable;
    switch (error.code) {
      case 'busy':
        return error.waited satisfies number;
      case 'lost':
        return error.reason satisfies ours.LossReason;
      case 'invalid-option':
        return error.field satisfies string;
      case 'unreachable':
        return error.server satisfies string | undefined;
      default:
        return retryable;
    }
  };
  const errors = [new BusyError({ waited: 7 }), new LostError('a', 'gone'), new InvalidOptionError('ttl', 'is wrong'), new ClosedError(), new Error('a')];
  assert.deepEqual(errors.map(told), [7, 'gone', 'ttl', false, 'not ours']);
  const busy: unknown = errors[0];
  assert.ok(busy instanceof BusyError && (busy.waited satisfies number) === 7);
});
