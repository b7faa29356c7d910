/** The most time that something may take, in milliseconds. */
const SOON = 10_000;

/** Waits until a condition holds. */
export async function until(what, condition) {
  for (const start = Date.now(); Date.now() - start < SOON;) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`timed out waiting until ${what}`);
}

/** Awaits a promise that should settle soon. */
export async function soon(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out waiting for ${what}`)), SOON);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
