/** `Symbol.asyncDispose`, or the symbol that compilers use on hosts without it. This changes nothing global. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose);
