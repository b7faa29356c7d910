import { Engine, initSync } from '../../../generated/quorum/leasehold_js.js';
import { UnsupportedError } from '../../support/errors.js';
import { parts } from '../../support/parts.js';

// workerd compiles no WebAssembly from bytes, and a Worker uploads every module that its code imports. So a program that needs
// the quorum's module imports it.
export function start(): { Engine: typeof Engine; memory: WebAssembly.Memory } {
  if (parts.quorum === undefined) throw new UnsupportedError("a quorum in a Worker without the line `import 'leasehold/quorum'`, which uploads the WebAssembly for it; add that line");
  return { Engine, memory: initSync({ module: parts.quorum() as WebAssembly.Module }).memory };
}
