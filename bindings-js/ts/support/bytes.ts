/** Reads WebAssembly from text: base64 of a raw deflate stream, as `build/wasm.mjs` writes it. */

import { inflate } from './inflate.js';

export interface Packed {
  readonly base64: string;
  /** How many bytes of WebAssembly there are. */
  readonly length: number;
}

export function unpack({ base64, length }: Packed): Uint8Array {
  const { Buffer, process } = globalThis as { Buffer?: { from(text: string, encoding: 'base64'): Uint8Array }; process?: Partial<NodeJS.Process> };
  // Loops in JavaScript take milliseconds, because they are not optimised yet.
  const packed = Buffer?.from(base64, 'base64') ?? Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  return process?.getBuiltinModule?.('node:zlib')?.inflateRawSync(packed) ?? inflate(packed, length);
}
