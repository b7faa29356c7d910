import { base64 } from '../../../generated/quorum/base64.js';
import { initSync } from '../../../generated/quorum/leasehold_js.js';
import { bytesOf } from '../../support/bytes.js';

export { Engine } from '../../../generated/quorum/leasehold_js.js';
export const { memory } = initSync({ module: bytesOf(base64) });
