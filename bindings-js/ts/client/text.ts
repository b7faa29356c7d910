/** Reads replies that are texts. */

const decoder = new TextDecoder();

/** The text of a reply. Empty if it is none. */
export function textOf(reply: unknown): string {
  if (reply instanceof Uint8Array) return decoder.decode(reply);
  return typeof reply === 'string' ? reply : '';
}
