/** Formats values, for messages and ids. */

/** Formats any value: short, and without running code of the value. */
export function formatValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}...` : value);
    case 'object':
      return value === null ? 'null' : isArray(value) ? 'an array' : 'an object';
    case 'function':
      return 'a function';
    case 'bigint':
      return `${value}n`;
    default:
      return String(value);
  }
}

/** Whether a value is an array. `Array.isArray` throws for a revoked proxy. */
export function isArray(value: unknown): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** 16 bytes as UUID text. Tokens begin with a client's id in this form. */
export function formatUuid(id: Uint8Array): string {
  const hex = [...id].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
