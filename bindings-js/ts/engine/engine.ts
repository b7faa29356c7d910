/** The engine in WebAssembly. Inputs are plain arguments. Outputs are read from its memory. */

import { Engine as WasmEngine } from '../../generated/leasehold_js.js';
import type { Failure, Reply, Scalar } from '../connections/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import type { Command } from './command.js';
import { bytesToText, FAILURE_KINDS, OutputReader } from './output-reader.js';
import type { AcquireSettings, Config, LockSpec, Mode, Outcome, Outputs } from './types.js';
import { memory } from './wasm/inline.js';

/** A WebAssembly module that makes engines, and the reader of its memory. */
export interface EngineModule {
  readonly reader: OutputReader;
  create(id: Uint8Array, config: Config): WasmEngine;
}

const ONE_SERVER: EngineModule = {
  reader: new OutputReader(memory),
  create: (id, { prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention }) =>
    new WasmEngine(id, prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention),
};

let loaded: { reader: OutputReader; QuorumEngine: typeof import('./wasm/quorum.js').Engine } | undefined;

/**
 * The engine of a quorum of these servers. It is a WebAssembly module of its own, loaded on first use, because few programs
 * need it.
 */
export async function quorumEngine(servers: readonly string[]): Promise<EngineModule> {
  const { Engine, memory } = await import('./wasm/quorum.js');
  const { reader, QuorumEngine } = (loaded ??= { reader: new OutputReader(memory), QuorumEngine: Engine });
  const lines = servers.map((name) => name.replace(/\s/g, ' ')).join('\n');
  const create: EngineModule['create'] = (
    id, { prefix, localHandoffs, claimWindow, responseTimeout, nodeTimeout, mixedFleet, fenceRetention },
  ) => QuorumEngine.quorum(id, prefix, localHandoffs, claimWindow, responseTimeout, nodeTimeout, mixedFleet, fenceRetention, lines);
  return { reader, create };
}

/** The operations on a lease. `src/engine.rs` has the same numbers. */
const LeaseOperation = { release: 0, extend: 1, convert: 2, hold: 3, verify: 4 } as const;

/**
 * One client's engine.
 *
 * Every input happens at `now`, in microseconds, and calls `outputs` before it returns. `op` is the number of a user's operation,
 * `call` the number of a command.
 */
export class Engine {
  readonly #wasm: WasmEngine;
  readonly #reader: OutputReader;
  readonly #outputs: Outputs;
  /** When the engine must be woken at the latest, in microseconds. Negative for never. */
  wake = -1;

  /** Throws `invalid-option` for an option out of its bounds. `id` is 16 random bytes. */
  constructor(id: Uint8Array, config: Config, outputs: Outputs, { reader, create }: EngineModule = ONE_SERVER) {
    this.#wasm = create(id, config);
    this.#reader = reader;
    this.#outputs = outputs;
    let refusal: Outcome | undefined;
    reader.read(this.#wasm.refusal(), { ...outputs, completed: (_, outcome) => (refusal = outcome) });
    if (refusal?.kind !== 'failed') return;
    this.free();
    throw new InvalidOptionError(camelCase(refusal.error.about), refusal.error.text);
  }

  acquire(now: number, op: number, { name, mode, kind }: LockSpec, settings: AcquireSettings): void {
    // The WebAssembly takes plain numbers. A number that there isn't is -1.
    const { ttl, renew, maxHold = -1, wait = -1, within = -1 } = settings;
    const shared = mode === 'shared';
    if (kind.type === 'multi') {
      const { names, oneScript } = kind;
      const lengths = names.flatMap((name) => [2, name.length]) as unknown as Float64Array;
      return this.#read(this.#wasm.acquireAll(now, op, lengths, names.join(''), shared, ttl, renew, maxHold, wait, within, oneScript));
    }
    const owner = kind.type === 'reentrant' ? kind.owner : -1;
    const isSemaphore = kind.type === 'semaphore';
    const permits = isSemaphore ? kind.permits : -1;
    const limit = isSemaphore ? kind.limit : -1;
    this.#read(this.#wasm.acquire(now, op, name, shared, ttl, renew, maxHold, wait, within, owner, permits, limit));
  }

  cancel(now: number, op: number): void {
    this.#read(this.#wasm.cancel(now, op));
  }

  release(now: number, op: number, lease: number): void {
    this.#leaseOperation(LeaseOperation.release, now, op, lease);
  }

  extend(now: number, op: number, lease: number, ttl: number): void {
    this.#leaseOperation(LeaseOperation.extend, now, op, lease, ttl);
  }

  convert(now: number, op: number, lease: number, mode: Mode): void {
    this.#leaseOperation(LeaseOperation.convert, now, op, lease, mode === 'shared' ? 1 : 0);
  }

  hold(now: number, op: number, lease: number): void {
    this.#leaseOperation(LeaseOperation.hold, now, op, lease);
  }

  verify(now: number, op: number, lease: number): void {
    this.#leaseOperation(LeaseOperation.verify, now, op, lease);
  }

  inspect(now: number, op: number, name: string): void {
    this.#read(this.#wasm.inspect(now, op, name));
  }

  forceRelease(now: number, op: number, name: string): void {
    this.#read(this.#wasm.forceRelease(now, op, name));
  }

  close(now: number, op: number): void {
    this.#read(this.#wasm.close(now, op));
  }

  /** The server has answered a command. */
  reply(now: number, call: number, reply: Reply): void {
    // Pairs of numbers: 1 and the number, 0 and 0 for null, 2 and the length of a text. All texts follow as one.
    const parts: number[] = [];
    let text = '';
    const isList = Array.isArray(reply);
    for (const scalar of isList ? (reply as readonly Scalar[]) : [reply as Scalar]) {
      if (typeof scalar === 'number' && Number.isSafeInteger(scalar)) {
        parts.push(1, scalar);
      } else if (scalar === null) {
        parts.push(0, 0);
      } else {
        const part = toText(scalar);
        parts.push(2, part.length);
        text += part;
      }
    }
    this.#read(this.#wasm.reply(now, call, isList, parts as unknown as Float64Array, text));
  }

  /** A command has no reply. */
  failed(now: number, call: number, failure: Failure): void {
    this.#read(this.#wasm.failed(now, call, FAILURE_KINDS.indexOf(failure.kind), failureText(failure)));
  }

  message(now: number, channel: string, payload: string): void {
    this.#read(this.#wasm.message(now, 0, channel, payload));
  }

  subscribed(now: number, channel: string): void {
    this.#read(this.#wasm.subscribed(now, 0, channel));
  }

  unsubscribed(now: number, channel: string, cause: Failure): void {
    this.#read(this.#wasm.unsubscribed(now, 0, channel, FAILURE_KINDS.indexOf(cause.kind), failureText(cause)));
  }

  /** Tells the engine that names are on different servers, so that a silent server delays only the names in slots near its own. */
  setCluster(): void {
    this.#wasm.setCluster();
  }

  /** Time has passed. */
  passed(now: number): void {
    this.#read(this.#wasm.wake(now));
  }

  /** When a lease ends unless it is renewed, in microseconds. Negative once it was released or lost. */
  validUntil(lease: number): number {
    return this.#wasm.validUntil(lease);
  }

  /** A harmless write to a lease, by digest and by source. Empty if the lease was released or lost, and on a quorum. */
  touch(lease: number): Command[] {
    const commands: Command[] = [];
    this.#reader.read(this.#wasm.touch(lease), { ...this.#outputs, send: (_call, _node, command) => void commands.push(command) });
    return commands;
  }

  /** Frees the engine's memory. The engine must not be used after this. */
  free(): void {
    this.#wasm.free();
  }

  #leaseOperation(operation: number, now: number, op: number, lease: number, value = 0): void {
    this.#read(this.#wasm.leaseCall(operation, now, op, lease, value));
  }

  #read(address: number): void {
    if (address === 0) throw new RangeError('the engine got a number that is out of range; please report this as a bug');
    this.wake = this.#reader.read(address, this.#outputs);
  }
}

/** The text of a failure. A custom connection may have left it out. */
function failureText(failure: Failure): string {
  return 'text' in failure ? String(failure.text) : '';
}

/** Converts a scalar to text. Text and bytes stay as they are. Anything else becomes text that the engine rejects as a reply. */
function toText(scalar: unknown): string {
  if (typeof scalar === 'string') return scalar;
  return scalar instanceof Uint8Array ? bytesToText.decode(scalar) : formatValue(scalar);
}

/** An option's name in JavaScript. The engine writes `max_hold`. */
export function camelCase(field: string): string {
  return field.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
