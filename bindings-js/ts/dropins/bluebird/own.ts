import { createRequire } from 'node:module';

import type Bluebird from 'bluebird';

/** Bluebird, if it is installed. The build puts a plain `require` in place of this module, which bundlers follow. */
export function bluebird(): typeof Bluebird | undefined {
  try {
    return createRequire(import.meta.url)('bluebird') as typeof Bluebird;
  } catch {
    return undefined;
  }
}
