/** A new client's identity. */

/** 16 random bytes. Drawn anew for each manager: two clients with one id would both be granted the same lease. */
export function newClientId(): Uint8Array {
  const id = new Uint8Array(16);
  // Node loads its Web Crypto when it is first looked at, which takes a millisecond of the time to a first lock.
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  return process?.getBuiltinModule?.('node:crypto')?.randomFillSync(id) ?? crypto.getRandomValues(id);
}

/** The id as UUID text, as it stands in tokens. */
export function textOf(id: Uint8Array): string {
  const hex = [...id].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
