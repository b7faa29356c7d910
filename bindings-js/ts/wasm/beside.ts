import { initSync } from '../../generated/leasehold_js.js';
import { bytesOf } from './text.js';

// What the CommonJS build starts with. In Node the file beside the code is there a millisecond before the text, which it has to
// read as JavaScript first; the text is for bundles, which have no such file.
export const { memory } = initSync({ module: beside() ?? bytesOf((require('../../generated/base64.js') as { base64: string }).base64) });

function beside(): Uint8Array | undefined {
  const { process, Deno } = globalThis as { process?: Partial<NodeJS.Process>; Deno?: unknown };
  // A bundle bears another name, and what lies beside it may be anybody's. Deno would ask the user whether we may read.
  if (typeof __filename !== 'string' || !/^(?:\/|[A-Za-z]:|\\\\).*[\\/]dist[\\/]leasehold\.cjs$/s.test(__filename) || Deno !== undefined) return undefined;
  try {
    return process?.getBuiltinModule?.('node:fs')?.readFileSync(__filename.replace(/leasehold\.cjs$/, 'core.wasm'));
  } catch {
    return undefined;
  }
}
