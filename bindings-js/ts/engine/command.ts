/** The commands of the engine, which arrive in RESP. */

import { PARTS, PREFIX, SCRIPTS } from '../../generated/scripts.js';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** A command of the engine, with the script's digest or its text filled in. */
export class Command {
  /** The whole command in RESP. */
  readonly wire: string;
  readonly #isAscii: boolean;

  /** `bytes` is the length of `wire` in UTF-8. */
  constructor(wire: string, bytes: number) {
    this.#isAscii = wire.length === bytes;
    // `*<count>\r\n$<length>\r\n<name>`; no name of a command has ten letters.
    const name = wire.indexOf('$') + 4;
    this.wire = wire.startsWith('EVAL', name) ? withScript(wire, wire.indexOf('$', name)) : wire;
  }

  /** Whether it calls a script that the server may lack. */
  get isByDigest(): boolean {
    return this.wire.startsWith('EVALSHA', this.wire.indexOf('$') + 4);
  }

  /** The text of the script that it calls by its digest. */
  get script(): string {
    return textOf(this.words[1]?.slice(0, PREFIX) ?? '');
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

/** The engine calls a script by the beginning of its digest, with its length at `at`. `EVALSHA` needs the digest, `EVAL` the text. */
function withScript(wire: string, at: number): string {
  const start = wire.indexOf('\n', at) + 1;
  const end = wire.indexOf('\r', start);
  const prefix = wire.slice(start, end);
  // The build makes sure that scripts are ASCII.
  const script = wire.startsWith('EVALSHA', at - 9) ? scriptOf(prefix)[0] : textOf(prefix);
  return `${wire.slice(0, at)}$${script.length}\r\n${script}${wire.slice(end)}`;
}

/** The scripts by the beginnings of their digests. */
const scripts = new Map(SCRIPTS.map((script) => [script[0].slice(0, PREFIX), script]));

function scriptOf(prefix: string): (typeof SCRIPTS)[number] {
  const script = scripts.get(prefix);
  if (script === undefined) throw new Error(`no script has the digest ${prefix}: the WebAssembly is from another version of leasehold than the JavaScript; reinstall the package`);
  return script;
}

/** The text of the script whose digest begins like that. */
function textOf(prefix: string): string {
  const [, ...parts] = scriptOf(prefix);
  return parts.map((part) => PARTS[part]).join('');
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
