import type Bluebird from 'bluebird';

/** Bluebird, if it is installed. Used by the CommonJS build. A bundler follows a `require`, which may fail inside `try`. */
export function bluebird(): typeof Bluebird | undefined {
  try {
    return require('bluebird') as typeof Bluebird;
  } catch {
    return undefined;
  }
}
