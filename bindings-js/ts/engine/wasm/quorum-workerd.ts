import { Engine, initSync } from '../../../generated/quorum/leasehold_js.js';

// workerd compiles no WebAssembly from bytes, and a Worker uploads every module that its code imports. So the program imports this one
// if it needs it.
export function start(module: WebAssembly.Module): { Engine: typeof Engine; memory: WebAssembly.Memory } {
  return { Engine, memory: initSync({ module }).memory };
}
