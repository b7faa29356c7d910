/** Commands and replies in the protocol of Redis, as they cross to the WebAssembly and back. */

import type { CallResult, Scalar } from '../connections/index.js';

const encoder = new TextEncoder();
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

/** Reads commands, each a list of texts. */
export function readCommands(bytes: Uint8Array): string[][] {
  let at = 0;
  const number = (): number => {
    const end = bytes.indexOf(13, at);
    const number = Number(decoder.decode(bytes.subarray(at + 1, end)));
    at = end + 2;
    return number;
  };
  const text = (): string => {
    const length = number();
    at += length + 2;
    return decoder.decode(bytes.subarray(at - length - 2, at - 2));
  };
  const commands: string[][] = [];
  while (at < bytes.length) commands.push(Array.from({ length: number() }, text));
  return commands;
}

/** Writes replies and the server's errors. */
export function writeReplies(results: readonly CallResult[]): Uint8Array {
  const parts: Uint8Array[] = [];
  const line = (text: string): number => parts.push(encoder.encode(`${text}\r\n`));
  const scalar = (value: Scalar): void => {
    if (value === null) line('$-1');
    else if (typeof value === 'number') line(`:${value}`);
    else {
      const bytes = typeof value === 'string' ? encoder.encode(value) : value;
      line(`$${bytes.length}`);
      parts.push(bytes);
      line('');
    }
  };
  for (const result of results) {
    if ('failure' in result) line(`-${'text' in result.failure ? result.failure.text.replace(/[\r\n]/g, ' ') : ''}`);
    else if (isList(result.reply)) {
      line(`*${result.reply.length}`);
      result.reply.forEach(scalar);
    } else scalar(result.reply);
  }
  return joined(parts);
}

function isList(reply: unknown): reply is readonly Scalar[] {
  return Array.isArray(reply);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
