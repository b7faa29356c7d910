import { base64 } from '../../../generated/quorum/base64.js';
import { Engine, initSync } from '../../../generated/quorum/leasehold_js.js';
import { bytesOf } from '../../support/bytes.js';

const { memory } = initSync({ module: bytesOf(base64) });

/** Starts the engine of quorums. Only workerd needs to be given its module. */
export function start(_module: WebAssembly.Module | undefined): { Engine: typeof Engine; memory: WebAssembly.Memory } {
  return { Engine, memory };
}
