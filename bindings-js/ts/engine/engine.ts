/** The engine in WebAssembly. Inputs are plain arguments; outputs are read from its memory. */

import { Engine as Core } from '../../generated/leasehold_js.js';
import type { Failure, Reply, Scalar } from '../connections/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import type { Command } from './command.js';
import { bytesToText, FAILURES, OutputReader } from './output-reader.js';
import type { AcquireSettings, Config, LockKind, Mode, Outcome, Outputs } from './types.js';
import { memory } from './wasm/inline.js';

/** A WebAssembly module that makes engines, and the reader of its memory. */
export interface EngineModule {
  readonly row: OutputReader;
  make(id: Uint8Array, config: Config): Core;
}

/** The calls on a lease. `src/engine.rs` has the same numbers. */
const LeaseCall = { release: 0, extend: 1, convert: 2, hold: 3, verify: 4 } as const;

const ONE_SERVER: EngineModule = {
  row: new OutputReader(memory),
  make: (id, { prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention }) =>
    new Core(id, prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention),
};

let loaded: { row: OutputReader; Core: typeof import('./wasm/quorum.js').Engine } | undefined;

/** The engine of a quorum of these servers. It is a WebAssembly module of its own, loaded on first use, because few programs need it. */
export async function quorumEngine(names: readonly string[]): Promise<EngineModule> {
  const { Engine, memory } = await import('./wasm/quorum.js');
  const { row, Core } = (loaded ??= { row: new OutputReader(memory), Core: Engine });
  const servers = names.map((name) => name.replace(/\s/g, ' ')).join('\n');
  const make: EngineModule['make'] = (id, { prefix, localHandoffs, claimWindow, responseTimeout, nodeTimeout, mixedFleet, fenceRetention }) =>
    Core.quorum(id, prefix, localHandoffs, claimWindow, responseTimeout, nodeTimeout, mixedFleet, fenceRetention, servers);
  return { row, make };
}

/** One client's engine. Every input happens at `now`, in microseconds, and calls `outputs` before it returns. */
export class Engine {
  readonly #core: Core;
  readonly #row: OutputReader;
  readonly #outputs: Outputs;
  /** When the engine must be woken at the latest, in microseconds; negative for never. */
  wake = -1;

  /** Throws `invalid-option` for an option out of its bounds. `id` is 16 random bytes. */
  constructor(id: Uint8Array, config: Config, outputs: Outputs, { row, make }: EngineModule = ONE_SERVER) {
    this.#core = make(id, config);
    this.#row = row;
    this.#outputs = outputs;
    let refusal: Outcome | undefined;
    row.read(this.#core.refusal(), { ...outputs, completed: (_, outcome) => (refusal = outcome) });
    if (refusal?.kind !== 'failed') return;
    this.free();
    throw new InvalidOptionError(camelCase(refusal.error.about), refusal.error.text);
  }

  acquire(now: number, op: number, name: string, kind: LockKind, wish: AcquireSettings): void {
    const { mode, owner, permits, limit, names, oneScript = false } = kind;
    if (names !== undefined) return this.acquireAll(now, op, names, mode, wish, oneScript);
    const { ttl, renew, maxHold = -1, wait = -1, within = -1 } = wish;
    this.#read(this.#core.acquire(now, op, name, mode === 'shared', ttl, renew, maxHold, wait, within, owner, permits, limit));
  }

  /** Acquires several names. `oneScript` refuses names that one script can't take. */
  acquireAll(now: number, op: number, names: readonly string[], mode: Mode, wish: AcquireSettings, oneScript: boolean): void {
    const { ttl, renew, maxHold = -1, wait = -1, within = -1 } = wish;
    const parts = names.flatMap((name) => [2, name.length]) as unknown as Float64Array;
    this.#read(this.#core.acquireAll(now, op, parts, names.join(''), mode === 'shared', ttl, renew, maxHold, wait, within, oneScript));
  }

  cancel(now: number, op: number): void {
    this.#read(this.#core.cancel(now, op));
  }

  release(now: number, op: number, lease: number): void {
    this.#ofLease(LeaseCall.release, now, op, lease);
  }

  extend(now: number, op: number, lease: number, ttl: number): void {
    this.#ofLease(LeaseCall.extend, now, op, lease, ttl);
  }

  convert(now: number, op: number, lease: number, mode: Mode): void {
    this.#ofLease(LeaseCall.convert, now, op, lease, mode === 'shared' ? 1 : 0);
  }

  hold(now: number, op: number, lease: number): void {
    this.#ofLease(LeaseCall.hold, now, op, lease);
  }

  verify(now: number, op: number, lease: number): void {
    this.#ofLease(LeaseCall.verify, now, op, lease);
  }

  inspect(now: number, op: number, name: string): void {
    this.#read(this.#core.inspect(now, op, name));
  }

  forceRelease(now: number, op: number, name: string): void {
    this.#read(this.#core.forceRelease(now, op, name));
  }

  close(now: number, op: number): void {
    this.#read(this.#core.close(now, op));
  }

  reply(now: number, call: number, reply: Reply): void {
    const parts: number[] = [];
    let text = '';
    const list = Array.isArray(reply);
    for (const scalar of list ? (reply as readonly Scalar[]) : [reply as Scalar]) {
      if (typeof scalar === 'number' && Number.isSafeInteger(scalar)) {
        parts.push(1, scalar);
      } else if (scalar === null) {
        parts.push(0, 0);
      } else {
        const part = textOf(scalar);
        parts.push(2, part.length);
        text += part;
      }
    }
    this.#read(this.#core.reply(now, call, list, parts as unknown as Float64Array, text));
  }

  failed(now: number, call: number, failure: Failure): void {
    this.#read(this.#core.failed(now, call, FAILURES.indexOf(failure.kind), wordsOf(failure)));
  }

  message(now: number, channel: string, payload: string): void {
    this.#read(this.#core.message(now, 0, channel, payload));
  }

  subscribed(now: number, channel: string): void {
    this.#read(this.#core.subscribed(now, 0, channel));
  }

  unsubscribed(now: number, channel: string, cause: Failure): void {
    this.#read(this.#core.unsubscribed(now, 0, channel, FAILURES.indexOf(cause.kind), wordsOf(cause)));
  }

  /** Tells the engine that names are on different servers, so that a silent server delays only the names in slots near its own. */
  setCluster(): void {
    this.#core.setCluster();
  }

  passed(now: number): void {
    this.#read(this.#core.wake(now));
  }

  /** When a lease ends unless it is renewed, in microseconds. Negative once it was released or lost. */
  validUntil(lease: number): number {
    return this.#core.validUntil(lease);
  }

  /** A harmless write to a lease, by digest and by source. Empty if the lease was released or lost, and on a quorum. */
  touch(lease: number): Command[] {
    const commands: Command[] = [];
    this.#row.read(this.#core.touch(lease), { ...this.#outputs, send: (_call, _node, command) => void commands.push(command) });
    return commands;
  }

  /** Frees the engine's memory. The engine must not be used after this. */
  free(): void {
    this.#core.free();
  }

  #ofLease(what: number, now: number, op: number, lease: number, value = 0): void {
    this.#read(this.#core.leaseCall(what, now, op, lease, value));
  }

  #read(address: number): void {
    if (address === 0) throw new RangeError('the engine got a number that is out of range; please report this as a bug');
    this.wake = this.#row.read(address, this.#outputs);
  }
}

/** The text of a failure. A custom connection may have left it out. */
function wordsOf(failure: Failure): string {
  return 'text' in failure ? String(failure.text) : '';
}

/** Converts a scalar to text. Text and bytes stay as they are; anything else becomes text that the engine rejects as an answer. */
function textOf(scalar: unknown): string {
  if (typeof scalar === 'string') return scalar;
  return scalar instanceof Uint8Array ? bytesToText.decode(scalar) : formatValue(scalar);
}

/** An option's name in JavaScript. The engine writes `max_hold`. */
export function camelCase(field: string): string {
  return field.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
