/** How objects look in logs: `console.log(lease)` in Node, Deno and Bun. */

export const inspectCustom: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** The host's function for showing values. The host passes it in, with its options. */
export type Inspect = (value: unknown, options: object) => string;

/** `Name { field: value }`, or `[Name]` below the maximum depth. Undefined fields are left out. */
export function inspected(name: string, fields: object, depth: number, options: object, inspect: Inspect): string {
  if (depth < 0) return `[${name}]`;
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  return `${name} ${inspect(Object.fromEntries(known), options)}`;
}
