import * as packed from '../../../generated/memory/base64.js';
import { initSync } from '../../../generated/memory/leasehold_js_memory.js';
import { unpack } from '../../support/bytes.js';

export { Memory, ScriptCall } from '../../../generated/memory/leasehold_js_memory.js';
initSync({ module: unpack(packed) });
