/** A new client: its identity, and its engine. */

import { type Config, Engine, type Outputs, type Wasm } from './engine.js';
import { InvalidOptionError } from './errors.js';
import { camelCase } from './outcome.js';

/** 16 random bytes. Drawn anew for each manager: two clients with one id would both be granted the same lease. */
export function newClientId(): Uint8Array {
  const id = new Uint8Array(16);
  // Node loads its Web Crypto when it is first looked at, which takes a millisecond of the time to a first lock.
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  return process?.getBuiltinModule?.('node:crypto')?.randomFillSync(id) ?? crypto.getRandomValues(id);
}

/** The id as UUID text, as it stands in tokens. */
export function textOf(id: Uint8Array): string {
  const hex = [...id].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** The engine of a client, or `invalid-option` for an option that is out of its bounds. */
export function makeEngine(id: Uint8Array, config: Config, outputs: Outputs, wasm?: Wasm): Engine {
  try {
    return new Engine(id, config, outputs, wasm);
  } catch (refused) {
    const [field = 'options', problem = 'can not be used'] = String(refused).split('\n');
    throw new InvalidOptionError(camelCase(field), problem);
  }
}
