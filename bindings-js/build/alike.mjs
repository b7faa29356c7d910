// The order of a module's functions, so that it compresses better: gzip finds a repeat only within 32 KB.

/**
 * Names the functions of a WebAssembly module by the order in which each follows those that it is most alike. Binaryen's
 * `--reorder-functions-by-name` then puts them in this order.
 */
export function nameByLikeness(wasm) {
  const { imports, bodies } = functionsOf(wasm);
  const names = chain(bodies.map(piecesOf)).map((place, rank) => [imports + place, `f${String(rank).padStart(6, '0')}`]);
  const entries = names.sort(([a], [b]) => a - b).map(([index, name]) => Buffer.concat([leb(index), withLength(Buffer.from(name))]));
  const functionNames = withLength(Buffer.concat([leb(names.length), ...entries]));
  return Buffer.concat([wasm, Buffer.of(0), withLength(Buffer.concat([withLength(Buffer.from('name')), Buffer.of(1), functionNames]))]);
}

/** Begins with the first function. The next one shares the most rare pieces with the last four; the last one counts most. */
function chain(pieces) {
  const counts = new Map();
  for (const piece of pieces.flatMap((of) => [...of])) counts.set(piece, (counts.get(piece) ?? 0) + 1);
  const rare = pieces.map((of) => new Set([...of].filter((piece) => counts.get(piece) > 1 && counts.get(piece) <= 40)));
  const likeness = (a, b) => {
    const [few, many] = rare[a].size < rare[b].size ? [rare[a], rare[b]] : [rare[b], rare[a]];
    let shared = 0;
    for (const piece of few) shared += many.has(piece) ? 1 : 0;
    return shared / Math.sqrt(1 + few.size);
  };
  const order = [0];
  const left = new Set(pieces.keys());
  left.delete(0);
  while (left.size > 0) {
    const last = order.slice(-4).reverse();
    let best = { score: -1 };
    for (const place of left) {
      const score = last.reduce((sum, other, age) => sum + likeness(other, place) / (age + 1), 0);
      if (score > best.score) best = { place, score };
    }
    order.push(best.place);
    left.delete(best.place);
  }
  return order;
}

/** Every three bytes that follow each other. */
function piecesOf(body) {
  const pieces = new Set();
  for (let at = 0; at + 3 <= body.length; at += 1) pieces.add(body.readUIntBE(at, 3));
  return pieces;
}

/** How many functions a module imports, and the bodies of its own. */
function functionsOf(wasm) {
  const module = new WebAssembly.Module(wasm);
  const imports = WebAssembly.Module.imports(module).filter(({ kind }) => kind === 'function').length;
  const CODE = 10;
  let at = 8;
  const number = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = wasm[at++];
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (wasm[at] !== CODE) {
    at += 1;
    const length = number();
    at += length;
  }
  at += 1;
  number();
  const bodies = Array.from({ length: number() }, () => {
    const length = number();
    at += length;
    return wasm.subarray(at - length, at);
  });
  return { imports, bodies };
}

function leb(value) {
  const bytes = [];
  for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128);
  return Buffer.of(...bytes, value);
}

function withLength(bytes) {
  return Buffer.concat([leb(bytes.length), bytes]);
}
