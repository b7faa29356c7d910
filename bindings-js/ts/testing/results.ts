import assert from 'node:assert/strict';

import type { CallResult, Reply } from '../connections/link.js';

export function replyOf(result: CallResult): Reply {
  if ('reply' in result) return result.reply;
  assert.fail(JSON.stringify(result.failure));
}

/** Decodes the bytes of a reply as text. */
export function text(result: CallResult): unknown {
  const read = (value: unknown): unknown => (value instanceof Uint8Array ? Buffer.from(value).toString() : value);
  const reply = replyOf(result);
  return Array.isArray(reply) ? reply.map(read) : read(reply);
}

export function kindOf(result: CallResult): string {
  return 'reply' in result ? 'reply' : result.failure.kind;
}

/** The server's error message. */
export function refusal(result: CallResult): string {
  if ('reply' in result || result.failure.kind !== 'refused') assert.fail(`not refused: ${JSON.stringify(result)}`);
  return result.failure.text;
}
