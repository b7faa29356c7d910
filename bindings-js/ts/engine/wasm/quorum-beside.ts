import { Engine, initSync } from '../../../generated/quorum/leasehold_js.js';
import { fileBeside } from '../../support/file.js';
import { bytesOf } from '../../support/bytes.js';

const beside = typeof __filename === 'string' ? fileBeside(__filename, 'quorum.cjs', 'quorum.wasm') : undefined;
const { memory } = initSync({ module: beside ?? bytesOf((require('../../../generated/quorum/base64.js') as { base64: string }).base64) });

export function start(_module: WebAssembly.Module | undefined): { Engine: typeof Engine; memory: WebAssembly.Memory } {
  return { Engine, memory };
}
