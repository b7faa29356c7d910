import { initSync } from '../../../generated/quorum/leasehold_js.js';
import { fileBeside } from '../../support/file.js';
import { bytesOf } from '../../support/bytes.js';

export { Engine } from '../../../generated/quorum/leasehold_js.js';
const beside = typeof __filename === 'string' ? fileBeside(__filename, 'quorum.cjs', 'quorum.wasm') : undefined;
export const { memory } = initSync({ module: beside ?? bytesOf((require('../../../generated/quorum/base64.js') as { base64: string }).base64) });
