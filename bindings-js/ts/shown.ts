/** A value as a message shows it: short, and whatever it is, without running its code. */
export function shown(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}...` : value);
    case 'object':
      return value === null ? 'null' : isList(value) ? 'an array' : 'an object';
    case 'function':
      return 'a function';
    case 'bigint':
      return `${value}n`;
    default:
      return String(value);
  }
}

/** An array; a proxy that was revoked throws if it is asked. */
export function isList(value: unknown): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}
