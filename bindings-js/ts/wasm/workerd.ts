import { initSync } from '../../generated/leasehold_js.js';
// @ts-expect-error A module of this kind is workerd's own: there code may not be made from bytes.
import module from './core.wasm';

export const { memory } = initSync({ module });
