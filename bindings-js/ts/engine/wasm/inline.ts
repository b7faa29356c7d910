import * as packed from '../../../generated/base64.js';
import { initSync } from '../../../generated/leasehold_js.js';
import { unpack } from '../../support/bytes.js';
import { compile } from '../../support/compile.js';

// Synchronous and from text, because neither a file beside the code nor a top-level `await` works with every bundler and `require`.
export const { memory } = initSync({ module: compile(unpack(packed)) });
