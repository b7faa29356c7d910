import { PARTS, SCRIPTS } from '../generated/scripts.js';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** What a command that brings its script begins with: the script's digest stands where the text belongs. */
const EVAL = /^(\*\d+\r\n\$4\r\nEVAL\r\n)\$40\r\n(\w{40})/;

/** A command as the engine wrote it, with the script's text in it. */
export class Command {
  /** All of it, as it goes over the wire (RESP). */
  readonly wire: string;
  readonly #isAscii: boolean;

  /** `bytes` is the wire's length in UTF-8. */
  constructor(wire: string, bytes: number) {
    this.#isAscii = wire.length === bytes;
    // Most bring a digest only, and don't get as far as the pattern.
    this.wire = wire.startsWith('$4', wire.indexOf('$')) ? wire.replace(EVAL, withText) : wire;
  }

  /** Its words in order: `EVALSHA` and the digest, or `EVAL` and the script; the number of keys, the keys, the arguments. */
  get words(): string[] {
    const { wire } = this;
    // Lengths on the wire are bytes, which are the text's own units only where all is ASCII.
    if (this.#isAscii) return words((from, to) => wire.slice(from, to), (from) => wire.indexOf('\r', from));
    const bytes = encoder.encode(wire);
    return words((from, to) => decoder.decode(bytes.subarray(from, to)), (from) => bytes.indexOf(13, from));
  }
}

function withText(_: string, begin: string, digest: string): string {
  const script = SCRIPTS[digest];
  if (script === undefined) throw new Error(`no script has the digest ${digest}: the WebAssembly is of another version of leasehold than the JavaScript`);
  const text = script.map((part) => PARTS[part]).join('');
  // It is ASCII: its build saw to that.
  return `${begin}$${text.length}\r\n${text}`;
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
