import { loadPart } from '../../support/part.js';

/** The text of the worker's program, for the package. It is read only if a manager has the option. */
export function program(): { source: string | URL; isText: boolean } {
  const { source } = loadPart('renewer', '`renewIn`', 'leasehold/renew-in') as { source: string };
  return { source, isText: true };
}
