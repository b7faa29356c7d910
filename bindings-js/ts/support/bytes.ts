/** Decodes WebAssembly from base64. A loop in JavaScript would take several milliseconds, because it is not optimised yet. */
export function bytesOf(base64: string): Uint8Array {
  const { Buffer } = globalThis as { Buffer?: { from(text: string, encoding: 'base64'): Uint8Array } };
  return Buffer?.from(base64, 'base64') ?? Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}
