import assert from 'node:assert/strict';

/** The error that a promise rejects with. */
export async function caught(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
}
