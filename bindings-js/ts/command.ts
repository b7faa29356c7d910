const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** A command as the engine wrote it. */
export class Command {
  /** All of it, as it goes over the wire (RESP). */
  readonly wire: string;
  readonly #bytes: number;

  /** `bytes` is the wire's length in UTF-8. */
  constructor(wire: string, bytes: number) {
    this.wire = wire;
    this.#bytes = bytes;
  }

  /** Its words in order: `EVALSHA`, the digest, the number of keys, the keys, the arguments. */
  get words(): string[] {
    const { wire } = this;
    // Lengths on the wire are bytes, which are the text's own units only where all is ASCII.
    if (wire.length === this.#bytes) return words((from, to) => wire.slice(from, to), (from) => wire.indexOf('\r', from));
    const bytes = encoder.encode(wire);
    return words((from, to) => decoder.decode(bytes.subarray(from, to)), (from) => bytes.indexOf(13, from));
  }
}

/** Reads `*<count>\r\n`, and then `$<length>\r\n<word>\r\n` for each. */
function words(slice: (from: number, to: number) => string, findReturn: (from: number) => number): string[] {
  let at = 0;
  const header = (): number => {
    const end = findReturn(at);
    const number = Number(slice(at + 1, end));
    at = end + 2;
    return number;
  };
  const list = new Array<string>(header());
  for (let i = 0; i < list.length; i++) {
    const end = header() + at;
    list[i] = slice(at, end);
    at = end + 2;
  }
  return list;
}
