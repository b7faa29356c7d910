/** The id of a client. */

/** Makes 16 random bytes, for each manager anew: two clients with the same id would both be granted the same lease. */
export function newClientId(): Uint8Array {
  const id = new Uint8Array(16);
  // In Node, `globalThis.crypto` loads on first use, which would delay the first lock by a millisecond.
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  return process?.getBuiltinModule?.('node:crypto')?.randomFillSync(id) ?? crypto.getRandomValues(id);
}

/** The id as UUID text, as tokens contain it. */
export function textOf(id: Uint8Array): string {
  const hex = [...id].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
