import { base64 } from '../../../generated/memory/base64.js';
import { initSync } from '../../../generated/memory/leasehold_js_memory.js';
import { bytesOf } from '../../support/bytes.js';

export { Memory, ScriptCall } from '../../../generated/memory/leasehold_js_memory.js';
initSync({ module: bytesOf(base64) });
