import * as packed from '../../../generated/quorum/base64.js';
import { Engine, initSync } from '../../../generated/quorum/leasehold_js.js';
import { unpack } from '../../support/bytes.js';

const { memory } = initSync({ module: unpack(packed) });

/** Starts the engine of quorums. */
export function start(): { Engine: typeof Engine; memory: WebAssembly.Memory } {
  return { Engine, memory };
}
