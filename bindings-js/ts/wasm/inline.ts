import { base64 } from '../../generated/base64.js';
import { initSync } from '../../generated/leasehold_js.js';

// At once and as text: neither a file beside the code nor a top-level `await` survives every bundler and `require`.
export const { memory } = initSync({ module: decoded(base64) });

/** A loop in JavaScript takes several milliseconds here, as it runs cold. */
function decoded(text: string): Uint8Array {
  const { Buffer } = globalThis as { Buffer?: { from(text: string, encoding: 'base64'): Uint8Array } };
  return Buffer?.from(text, 'base64') ?? Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
