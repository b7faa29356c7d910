import { UnsupportedError } from '../../support/errors.js';

/** For hosts without threads. */
export function program(): { source: string | URL; isText: boolean } {
  throw new UnsupportedError('`renewIn` on a host without `node:worker_threads`; leave the option out');
}
