import { base64 } from '../../generated/base64.js';
import { initSync } from '../../generated/leasehold_js.js';

// At once and as text: neither a file beside the code nor a top-level `await` survives every bundler and `require`.
const text = atob(base64);
const bytes = new Uint8Array(text.length);
for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);

export const { memory } = initSync({ module: bytes });
