/** What should happen soon must happen within this. */
const SOON = 10_000;

/** Waits until a condition holds. */
export async function until(what, condition) {
  for (const start = Date.now(); Date.now() - start < SOON;) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`waited in vain until ${what}`);
}

/** Awaits what should come soon. */
export async function soon(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), SOON);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
