/** Reads the protocol of Redis, in which the server's WebAssembly answers. */

import type { CallResult, Scalar } from '../connections/index.js';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** A message that a command has published. */
export interface Message {
  readonly channel: string;
  readonly payload: string;
}

/** Reads the result of a command and, after it, the channel and the text of each message that the command has published. */
export function readAnswer(bytes: Uint8Array): { result: CallResult; messages: Message[] } {
  let at = 0;
  const line = (): string => {
    const end = bytes.indexOf(13, at);
    const text = decoder.decode(bytes.subarray(at, end));
    at = end + 2;
    return text;
  };
  const scalar = (head: string): Scalar => {
    const number = Number(head.slice(1));
    if (head[0] === ':') return number;
    if (number < 0) return null;
    at += number + 2;
    return decoder.decode(bytes.subarray(at - number - 2, at - 2));
  };
  const result = (head: string): CallResult => {
    if (head[0] === '-') return { failure: { kind: 'refused', text: head.slice(1) } };
    if (head[0] !== '*') return { reply: scalar(head) };
    return { reply: Array.from({ length: Number(head.slice(1)) }, () => scalar(line())) };
  };
  const answer = { result: result(line()), messages: [] as Message[] };
  while (at < bytes.length) answer.messages.push({ channel: String(scalar(line())), payload: String(scalar(line())) });
  return answer;
}
