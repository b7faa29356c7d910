// Instantiates `lock.wasm`, which jco has translated to JavaScript, and provides the imports of its world.
import { randomFillSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Endpoint } from './connection.mjs';
import { instantiate } from './generated/lock.js';

const imports = {
  'leasehold:lock/connection': { Endpoint },
  'wasi:clocks/monotonic-clock': {
    now: () => process.hrtime.bigint(),
    waitFor: (nanos) => new Promise((resolve) => { setTimeout(resolve, Number(nanos) / 1e6); }),
  },
  'wasi:clocks/system-clock': {
    now() {
      const ms = Date.now();
      return { seconds: BigInt(Math.floor(ms / 1000)), nanoseconds: (ms % 1000) * 1e6 };
    },
  },
  'wasi:random/random': { getRandomU64: () => randomFillSync(new BigUint64Array(1))[0] },
};

export async function locks() {
  const load = async (path) => WebAssembly.compile(await readFile(new URL(`generated/${path}`, import.meta.url)));
  const component = await instantiate(load, imports);
  return component.locks;
}
