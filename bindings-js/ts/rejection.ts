/** How a call fails so that its error leads to the line that awaits it. */

/**
 * A promise that soon rejects with what `make` makes.
 *
 * An error's stack is taken where it is made: in the middle of an answer from the server that would be nobody's line. Made in
 * a microtask that the caller's promise waits for, the engines that know about `await` add the lines that do. The call that
 * succeeds pays nothing.
 */
export function rejection(make: () => unknown): Promise<never> {
  // A promise that is resolved with this one begins to wait for it a microtask later: not before that.
  return Promise.resolve().then(ignore).then(() => {
    throw make();
  });
}

function ignore(): void {}
