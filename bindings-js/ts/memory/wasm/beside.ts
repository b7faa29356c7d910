import { initSync } from '../../../generated/memory/leasehold_js_memory.js';
import { bytesOf } from '../../support/bytes.js';
import { fileBeside } from '../../support/file.js';

// As in `engine/wasm/beside.ts`: the file in Node, the text in bundles.
export { Memory } from '../../../generated/memory/leasehold_js_memory.js';
const beside = typeof __filename === 'string' ? fileBeside(__filename, 'testing.cjs', 'memory.wasm') : undefined;
initSync({ module: beside ?? bytesOf((require('../../../generated/memory/base64.js') as { base64: string }).base64) });
