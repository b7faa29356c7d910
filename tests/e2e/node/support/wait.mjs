/**
 * The options of managers over real servers. On a slow machine, any process or server may stop for ten seconds, and no test may fail
 * because of that. A test that shortens one of these times awaits its end. Nothing else in the test may depend on it.
 */
export const GENEROUS = { responseTimeout: '60s', claimWindow: '60s', ttl: '5m', wait: '5m' };

/** How long a test waits before it fails, in milliseconds: longer than any heartbeat or answer with these options takes. */
export const PATIENCE = 120_000;

/** Waits until a condition holds. */
export async function until(what, condition) {
  for (const start = Date.now(); Date.now() - start < PATIENCE;) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`timed out waiting until ${what}`);
}

/** Awaits a promise that must settle. */
export async function soon(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out waiting for ${what}`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
