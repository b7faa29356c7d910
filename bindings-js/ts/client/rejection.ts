/** Makes a call fail with a stack that leads to the line that awaits it. */

/**
 * Returns a promise that rejects in a moment with `instead(make())`.
 *
 * An error gets its stack where it is made. While the server's answer is handled, that stack has no line of the caller. So the
 * error is made in a microtask that the caller's promise waits for: there, V8 adds the lines that `await` it. A call that
 * succeeds pays nothing.
 */
export function rejection(make: () => Error, instead: (error: Error) => unknown = (error) => error): Promise<never> {
  const reject = (): never => {
    const error = make();
    dropOurFrames(error, reject);
    throw instead(error);
  };
  // A promise that is resolved with this one starts to wait for it one microtask later, so make the error after that.
  return Promise.resolve().then(ignore).then(reject);
}

/** Removes the lines of this package from the stack, if lines of a caller remain. */
function dropOurFrames(error: Error, ours: () => unknown): void {
  const { stack } = error;
  // V8 only.
  Error.captureStackTrace?.(error, ours);
  if (stack !== undefined && !/\n\s+at (?!.*node:internal)/.test(error.stack ?? '')) error.stack = stack;
}

function ignore(): void {}
