/** Compiles WebAssembly. */

import { UnsupportedError } from './errors.js';

/** Throws `unsupported` on a host without WebAssembly. The engine of one server is the first module, so only that one needs it. */
export function compile(bytes: Uint8Array): WebAssembly.Module {
  if (typeof WebAssembly === 'undefined') {
    throw new UnsupportedError('a host without WebAssembly, which is what the engine is made of; start Node without `--jitless`, or use another runtime');
  }
  return new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>);
}
