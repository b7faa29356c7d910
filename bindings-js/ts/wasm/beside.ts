import { initSync } from '../../generated/leasehold_js.js';
import { fileBeside } from './file.js';
import { bytesOf } from './text.js';

// What the CommonJS build starts with. In Node the file beside the code is there a millisecond before the text, which it has to
// read as JavaScript first; the text is for bundles, which have no such file.
const beside = typeof __filename === 'string' ? fileBeside(__filename, 'leasehold.cjs', 'core.wasm') : undefined;
export const { memory } = initSync({ module: beside ?? bytesOf((require('../../generated/base64.js') as { base64: string }).base64) });
