/** Reads replies that are texts. */

const decoder = new TextDecoder();

/** The text of a reply. Empty for a reply that is no text. */
export function textOf(reply: unknown): string {
  if (reply instanceof Uint8Array) return decoder.decode(reply);
  return typeof reply === 'string' ? reply : '';
}
