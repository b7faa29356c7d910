import { Engine, initSync } from '../../../generated/quorum/leasehold_js.js';
import { type Packed, unpack } from '../../support/bytes.js';
import { fileBeside } from '../../support/file.js';

const beside = typeof __filename === 'string' ? fileBeside(__filename, 'quorum.cjs', 'quorum.wasm') : undefined;
const { memory } = initSync({ module: beside ?? unpack(require('../../../generated/quorum/base64.js') as Packed) });

export function start(): { Engine: typeof Engine; memory: WebAssembly.Memory } {
  return { Engine, memory };
}
