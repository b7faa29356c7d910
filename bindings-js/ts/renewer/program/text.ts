/** The text of the worker's program, for the package. It is read only if a manager has the option. */
export function program(): { source: string | URL; isText: boolean } {
  return { source: (require('../../../generated/renewer.js') as { source: string }).source, isText: true };
}
