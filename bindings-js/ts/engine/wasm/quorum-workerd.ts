import { initSync } from '../../../generated/quorum/leasehold_js.js';
// @ts-expect-error See workerd.ts.
import module from './quorum.wasm';

export { Engine } from '../../../generated/quorum/leasehold_js.js';
export const { memory } = initSync({ module });
