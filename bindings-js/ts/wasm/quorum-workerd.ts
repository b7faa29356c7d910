import { initSync } from '../../generated/quorum/leasehold_js.js';
// @ts-expect-error As in workerd.ts.
import module from './quorum.wasm';

export { Engine } from '../../generated/quorum/leasehold_js.js';
export const { memory } = initSync({ module });
