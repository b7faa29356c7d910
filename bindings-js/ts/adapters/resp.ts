/** RESP2, the protocol of Redis and Valkey, as far as locks need it. */

/** A server's error reply. The message begins with its code. */
export class ErrorReply extends Error {}

export type RespValue = number | string | null | Uint8Array | ErrorReply | RespValue[];

/** The longest reply that is accepted. A longer one does not come from the intended server. */
const LONGEST_REPLY = 4 * 1024 * 1024;
const DEEPEST_LIST = 8;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function encodeCommand(args: readonly string[]): Uint8Array {
  return encoder.encode(`*${args.length}\r\n${args.map((arg) => `$${encoder.encode(arg).length}\r\n${arg}\r\n`).join('')}`);
}

/** Splits a stream of bytes into replies. It reads each item of a list once, however the bytes are cut. */
export class RespReader {
  #bytes: Uint8Array = new Uint8Array();
  #at = 0;
  /** The lists that are incomplete, outermost first. */
  readonly #lists: { readonly items: RespValue[]; readonly length: number }[] = [];
  /** How many bytes of the incomplete reply have been read. */
  #size = 0;

  /** Takes the next bytes and returns the replies that they complete. Throws for bytes that are no reply; don't use it after that. */
  push(chunk: Uint8Array): RespValue[] {
    this.#bytes = this.#bytes.length === 0 ? chunk : joined(this.#bytes, chunk);
    this.#at = 0;
    const replies: RespValue[] = [];
    let read = 0;
    for (let item = this.#next(); item !== undefined; item = this.#next()) {
      this.#size += this.#at - read;
      read = this.#at;
      const reply = item === LIST ? undefined : this.#completedBy(item);
      if (reply === undefined) continue;
      replies.push(reply);
      this.#size = 0;
    }
    this.#bytes = this.#bytes.subarray(read);
    if (this.#size + this.#bytes.length > LONGEST_REPLY) throw new Error(`a reply is longer than ${LONGEST_REPLY} bytes`);
    return replies;
  }

  /** Adds a value to the list that it is in. Returns the reply, if it is complete now. */
  #completedBy(value: RespValue): RespValue | undefined {
    for (let list = this.#lists.at(-1); list !== undefined; list = this.#lists.at(-1)) {
      list.items.push(value);
      if (list.items.length < list.length) return undefined;
      this.#lists.pop();
      value = list.items;
    }
    return value;
  }

  /** The value at the current position, or that a list begins there; undefined while it is incomplete. */
  #next(): RespValue | typeof LIST | undefined {
    const line = this.#line();
    if (line === undefined) return undefined;
    const [kind, text] = [line.charAt(0), line.slice(1)];
    switch (kind) {
      case '+': return text;
      case '-': return new ErrorReply(text);
      case ':': return numberIn(text);
      case '$': return this.#bulk(numberIn(text));
      case '*': return this.#list(numberIn(text));
      default: throw new Error(`not a reply of a Redis server: ${JSON.stringify(line.slice(0, 40))}`);
    }
  }

  #line(): string | undefined {
    const end = this.#bytes.indexOf(CR, this.#at);
    if (end < 0 || end + 1 >= this.#bytes.length) return undefined;
    const line = decoder.decode(this.#bytes.subarray(this.#at, end));
    this.#at = end + 2;
    return line;
  }

  #bulk(length: number): RespValue | undefined {
    if (length < 0) return null;
    if (length > LONGEST_REPLY) throw new Error(`a reply has ${length} bytes`);
    const end = this.#at + length;
    if (end + 2 > this.#bytes.length) return undefined;
    const bytes = this.#bytes.slice(this.#at, end);
    this.#at = end + 2;
    return bytes;
  }

  #list(length: number): RespValue | typeof LIST {
    if (length < 0) return null;
    if (length === 0) return [];
    if (length > LONGEST_REPLY || this.#lists.length === DEEPEST_LIST) throw new Error('a reply is too large');
    this.#lists.push({ items: [], length });
    return LIST;
  }
}

/** A list with items begins. */
const LIST = Symbol('list');
const CR = 13;

function numberIn(text: string): number {
  if (!/^[+-]?\d+$/.test(text)) throw new Error(`not a number in a reply: ${JSON.stringify(text.slice(0, 40))}`);
  return Number(text);
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(a.length + b.length);
  bytes.set(a);
  bytes.set(b, a.length);
  return bytes;
}
