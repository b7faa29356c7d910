/** Awaits what a test expects. */

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

/** Waits until a condition holds. */
export async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`timed out waiting until ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** How long a test waits before it fails. */
export const PATIENCE_MS = 15_000;
