import type { Engine } from '../../../generated/quorum/leasehold_js.js';
import { loadPart } from '../../support/part.js';

/** Used by the CommonJS build, which has the engine of quorums in a file of its own. */
export function start(): { Engine: typeof Engine; memory: WebAssembly.Memory } {
  return (loadPart('quorum', 'a quorum', 'leasehold/quorum') as { start: typeof start }).start();
}
