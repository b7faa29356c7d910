/** Does nothing, for results and errors that don't matter. */
export function ignore(): undefined {}
