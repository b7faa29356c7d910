/** The commands of the engine, which arrive in RESP. */

import { PARTS, SCRIPTS } from '../../generated/scripts.js';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** The beginning of an `EVAL` from the engine. It has the script's digest where the text belongs. */
const EVAL = /^(\*\d+\r\n\$4\r\nEVAL\r\n)\$40\r\n(\w{40})/;

/** A command of the engine, with the script's text filled in. */
export class Command {
  /** The whole command in RESP. */
  readonly wire: string;
  readonly #isAscii: boolean;

  /** `bytes` is the length of `wire` in UTF-8. */
  constructor(wire: string, bytes: number) {
    this.#isAscii = wire.length === bytes;
    // Most commands are an `EVALSHA`, and skip the regular expression.
    this.wire = wire.startsWith('$4', wire.indexOf('$')) ? wire.replace(EVAL, withText) : wire;
  }

  /** The text of the script that it calls by its digest. */
  get script(): string {
    return textOf(this.words[1] ?? '');
  }

  /** The words in order: `EVALSHA` and the digest, or `EVAL` and the script; then the number of keys, the keys, the arguments. */
  get words(): string[] {
    const { wire } = this;
    // RESP counts bytes. Only in ASCII text is a byte the same as a unit of a JavaScript string.
    if (this.#isAscii) return words((from, to) => wire.slice(from, to), (from) => wire.indexOf('\r', from));
    const bytes = encoder.encode(wire);
    return words((from, to) => decoder.decode(bytes.subarray(from, to)), (from) => bytes.indexOf(13, from));
  }
}

function withText(_: string, begin: string, digest: string): string {
  const text = textOf(digest);
  // The build makes sure that scripts are ASCII.
  return `${begin}$${text.length}\r\n${text}`;
}

/** The text of the script with this digest. */
function textOf(digest: string): string {
  const script = SCRIPTS[digest];
  if (script === undefined) throw new Error(`no script has the digest ${digest}: the WebAssembly is from another version of leasehold than the JavaScript; reinstall the package`);
  return script.map((part) => PARTS[part]).join('');
}

/** Reads `*<count>\r\n`, then `$<length>\r\n<word>\r\n` for each word. */
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
