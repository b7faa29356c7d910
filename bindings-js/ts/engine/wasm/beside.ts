import { initSync } from '../../../generated/leasehold_js.js';
import { fileBeside } from '../../support/file.js';
import { type Packed, unpack } from '../../support/bytes.js';
import { compile } from '../../support/compile.js';

// Used by the CommonJS build. In Node, reading the file beside the code is a millisecond faster than the text, which must
// be parsed as JavaScript and unpacked first. The text is for bundles, which don't have the file.
const beside = typeof __filename === 'string' ? fileBeside(__filename, 'leasehold.cjs', 'core.wasm') : undefined;
export const { memory } = initSync({ module: compile(beside ?? unpack(require('../../../generated/base64.js') as Packed)) });
