/**
 * Reads a raw deflate stream (RFC 1951), for hosts without `node:zlib`. `DecompressionStream` is asynchronous, but the engine
 * starts while the package is loaded.
 */

/** The bases of the codes for lengths and distances, and how many further bits each code has. */
const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCES = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
const DISTANCE_BITS = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
/** The order in which a block gives the lengths of the codes for lengths. */
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const [LITERALS, DISTANCES_OF_FIXED] = [[...fill(144, 8), ...fill(112, 9), ...fill(24, 7), ...fill(8, 8)], fill(30, 5)];

/** `length` is that of the result. The stream is the package's own, so this checks nothing. */
export function inflate(packed: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(length);
  let [at, end, held, bits] = [0, 0, 0, 0];
  const take = (count: number): number => {
    for (; bits < count; bits += 8) held |= (packed[at++] as number) << bits;
    const value = held & ((1 << count) - 1);
    held >>>= count;
    bits -= count;
    return value;
  };
  const symbol = (table: Uint16Array): number => {
    for (; bits < 15; bits += 8) held |= (packed[at++] as number) << bits;
    const entry = table[held & (table.length - 1)] as number;
    held >>>= entry & 15;
    bits -= entry & 15;
    return entry >> 4;
  };
  for (let isLast = 0; isLast === 0;) {
    isLast = take(1);
    const kind = take(2);
    if (kind === 0) {
      // At most 22 bits are held, of which some were read too early.
      at -= bits >> 3;
      const count = (packed[at] as number) | ((packed[at + 1] as number) << 8);
      out.set(packed.subarray(at + 4, at + 4 + count), end);
      [at, end, held, bits] = [at + 4 + count, end + count, 0, 0];
      continue;
    }
    let [literals, distances] = [LITERALS, DISTANCES_OF_FIXED];
    if (kind === 2) {
      const [ofLiterals, ofDistances, given] = [take(5) + 257, take(5) + 1, take(4) + 4];
      const widths = fill(ORDER.length, 0);
      for (let i = 0; i < given; i++) widths[ORDER[i] as number] = take(3);
      const table = tableOf(widths);
      const all: number[] = [];
      while (all.length < ofLiterals + ofDistances) {
        const value = symbol(table);
        if (value < 16) all.push(value);
        else if (value === 16) all.push(...fill(take(2) + 3, all[all.length - 1] as number));
        else all.push(...fill(value === 17 ? take(3) + 3 : take(7) + 11, 0));
      }
      [literals, distances] = [all.slice(0, ofLiterals), all.slice(ofLiterals)];
    }
    const state = { packed, out, at, end, held, bits };
    copy(state, tableOf(literals), tableOf(distances));
    ({ at, end, held, bits } = state);
  }
  return out;
}

interface State {
  readonly packed: Uint8Array;
  readonly out: Uint8Array;
  at: number;
  end: number;
  held: number;
  bits: number;
}

/**
 * Reads a block up to its end. It is one function with local variables, because that is several times faster while V8 has not
 * optimised it yet.
 */
function copy(state: State, literals: Uint16Array, distances: Uint16Array): void {
  const { packed, out } = state;
  let { at, end, held, bits } = state;
  const [ofLiterals, ofDistances] = [literals.length - 1, distances.length - 1];
  for (;;) {
    while (bits < 15) {
      held |= (packed[at++] as number) << bits;
      bits += 8;
    }
    let entry = literals[held & ofLiterals] as number;
    held >>>= entry & 15;
    bits -= entry & 15;
    const value = entry >> 4;
    if (value < 256) {
      out[end++] = value;
      continue;
    }
    if (value === 256) break;
    while (bits < 20) {
      held |= (packed[at++] as number) << bits;
      bits += 8;
    }
    let width = LENGTH_BITS[value - 257] as number;
    const stop = end + (LENGTHS[value - 257] as number) + (held & ((1 << width) - 1));
    held >>>= width;
    bits -= width;
    entry = distances[held & ofDistances] as number;
    held >>>= entry & 15;
    bits -= entry & 15;
    width = DISTANCE_BITS[entry >> 4] as number;
    while (bits < width) {
      held |= (packed[at++] as number) << bits;
      bits += 8;
    }
    const from = end - (DISTANCES[entry >> 4] as number) - (held & ((1 << width) - 1));
    held >>>= width;
    bits -= width;
    for (let i = from; end < stop; i++) out[end++] = out[i] as number;
  }
  Object.assign(state, { at, end, held, bits });
}

/** The symbol and the width of each code, at every index whose lowest bits are the code in the order of the stream. */
function tableOf(widths: readonly number[]): Uint16Array {
  const widest = Math.max(...widths, 1);
  const table = new Uint16Array(1 << widest);
  let code = 0;
  for (let width = 1; width <= widest; width++) {
    for (let value = 0; value < widths.length; value++) {
      if (widths[value] !== width) continue;
      let reversed = 0;
      for (let bit = 0; bit < width; bit++) reversed |= ((code >> bit) & 1) << (width - 1 - bit);
      for (let i = reversed; i < table.length; i += 1 << width) table[i] = (value << 4) | width;
      code++;
    }
    code <<= 1;
  }
  return table;
}

function fill(count: number, value: number): number[] {
  return new Array<number>(count).fill(value);
}
