/** The file of the worker's program. The build puts the text of the program in place of this module. */
export function program(): { source: string | URL; isText: boolean } {
  return { source: new URL('../worker.js', import.meta.url), isText: false };
}
