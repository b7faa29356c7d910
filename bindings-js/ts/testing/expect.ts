/** Awaits what a test expects. */

import assert from 'node:assert/strict';

import { PATIENCE_MS } from './generous.js';

// A test may replace the clocks and timers of the process. This file keeps the real ones.
const { setTimeout: later } = globalThis;
const now = performance.now.bind(performance);

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
  const deadline = now() + PATIENCE_MS;
  while (!(await condition())) {
    if (now() > deadline) throw new Error(`timed out waiting until ${condition}`);
    await new Promise((resolve) => later(resolve, 10));
  }
}
