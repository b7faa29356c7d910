/** How things look in a log: `console.log(lease)` in Node, Deno and Bun. */

export const inspectCustom: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** The host's own function for showing values, as it hands it over, with its own options. */
export type Inspect = (value: unknown, options: object) => string;

/** `Name { field: value }`, or `[Name]` where that is too deep. What is undefined is left out. */
export function inspected(name: string, fields: object, depth: number, options: object, inspect: Inspect): string {
  if (depth < 0) return `[${name}]`;
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  return `${name} ${inspect(Object.fromEntries(known), options)}`;
}
