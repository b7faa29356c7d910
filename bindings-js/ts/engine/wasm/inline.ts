import { base64 } from '../../../generated/base64.js';
import { initSync } from '../../../generated/leasehold_js.js';
import { bytesOf } from '../../support/bytes.js';
import { compile } from '../../support/compile.js';

// Synchronous and from text, because neither a file beside the code nor a top-level `await` works with every bundler and `require`.
export const { memory } = initSync({ module: compile(bytesOf(base64)) });
