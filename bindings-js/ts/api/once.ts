/** Work that is done once, and whose result all callers get. */

import type { LockSpec } from '../engine/index.js';
import { InvalidOptionError, LostError, ProtocolError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { ignore } from '../support/ignore.js';
import { type Lease, openLease, stateOf } from './lease.js';
import { holdWhile, type ManagerContext, withoutLinger } from './lock.js';
import { type OnceOptions, readOnceOptions } from './options.js';
import { readName } from './validate.js';

/** The options of a {@link LockManager.once} with work. */
export interface OnceCallOptions extends OnceOptions {
  /** Ends the wait: the call then rejects with `signal.reason`. It doesn't end the work. */
  readonly signal?: AbortSignal | undefined;
}

/** Resolves to the stored result, or does the work and stores its result. */
export async function doOnce(
  { client, defaults }: ManagerContext, given: unknown, work: (lease: Lease) => unknown, options: unknown,
): Promise<unknown> {
  const name = readName(given, client.prefix);
  if (typeof work !== 'function') throw new InvalidOptionError('work', `is ${formatValue(work)}: give a function`);
  const { keep, settings, signal } = readOnceOptions(options, withoutLinger(defaults));
  const spec: LockSpec = { name, mode: 'exclusive', kind: { type: 'once', keep } };
  const taken = await client.acquire<Lease | Stored>(spec, settings, signal, openLease, undefined, (text) => new Stored(text));
  if (taken instanceof Stored) return taken.read(name);

  const result = await holdWhile(client, taken, work);
  const text = jsonOf(result);
  if (text === undefined) {
    await taken.release().catch(ignore);
    throw new InvalidOptionError('result', `is ${formatValue(result)}: give a value that JSON has`);
  }
  const state = stateOf(taken);
  const outcome = await client.store(state, text);
  if (state.ended !== undefined) throw state.ended;
  if (outcome !== 'released') throw new LostError(name, outcome === 'not-owner' ? 'taken' : 'gone');
  return new Stored(text).read(name);
}

/** Undefined for a function, a circular object and the like. */
function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value === undefined ? null : value);
  } catch {
    return undefined;
  }
}

/** A result, as it is on the server. */
class Stored {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  read(lockName: string): unknown {
    try {
      return JSON.parse(this.#text);
    } catch (cause) {
      throw new ProtocolError('the stored result is no JSON', { lockName, cause });
    }
  }
}
