/** `Symbol.asyncDispose`, or what compilers put in its place where the host has none. Nothing global is touched. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose);
