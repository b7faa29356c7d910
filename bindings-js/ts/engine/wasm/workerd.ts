import { initSync } from '../../../generated/leasehold_js.js';
// @ts-expect-error Only workerd imports WebAssembly as a module. It doesn't allow compiling it from bytes.
import module from './core.wasm';

export const { memory } = initSync({ module });
