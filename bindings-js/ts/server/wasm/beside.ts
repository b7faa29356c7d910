import { initSync } from '../../../generated/memory/leasehold_js_memory.js';
import { type Packed, unpack } from '../../support/bytes.js';
import { fileBeside } from '../../support/file.js';

// As in `engine/wasm/beside.ts`: the file in Node, the text in bundles.
export { Memory, ScriptCall } from '../../../generated/memory/leasehold_js_memory.js';
const path = typeof __filename === 'string' ? __filename : '';
const beside = fileBeside(path, 'testing.cjs', 'memory.wasm') ?? fileBeside(path, 'without-scripts.cjs', 'memory.wasm');
initSync({ module: beside ?? unpack(require('../../../generated/memory/base64.js') as Packed) });
