/** How a call fails so that its error leads to the line that awaits it. */

/**
 * A promise that soon rejects with the error that `make` makes, or with what `instead` makes of that.
 *
 * An error's stack is taken where it is made: in the middle of an answer from the server that would be nobody's line. Made in
 * a microtask that the caller's promise waits for, the engines that know about `await` add the lines that do. The call that
 * succeeds pays nothing.
 */
export function rejection(make: () => Error, instead: (error: Error) => unknown = (error) => error): Promise<never> {
  const reject = (): never => {
    const error = make();
    dropOurFrames(error, reject);
    throw instead(error);
  };
  // A promise that is resolved with this one begins to wait for it a microtask later: not before that.
  return Promise.resolve().then(ignore).then(reject);
}

/** Leaves the callers' lines, if there are any. */
function dropOurFrames(error: Error, ours: () => unknown): void {
  const { stack } = error;
  // V8's own.
  Error.captureStackTrace?.(error, ours);
  if (stack !== undefined && !/\n\s+at (?!.*node:internal)/.test(error.stack ?? '')) error.stack = stack;
}

function ignore(): void {}
