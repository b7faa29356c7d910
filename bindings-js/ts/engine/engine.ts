/** The engine in WebAssembly. Inputs are written to its memory, and outputs are read from there. */

import { Engine as WasmEngine } from '../../generated/leasehold_js.js';
import type { Failure, Reply, Scalar } from '../connections/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { FAILURE_KINDS, InputField, InputKind, ScalarKind } from './codes.generated.js';
import type { Command } from './command.js';
import { InputRecord } from './input-record.js';
import { bytesToText, EngineMemory } from './memory.js';
import { OutputReader } from './output-reader.js';
import type { AcquireSettings, Config, LockSpec, Mode, Outcome, Outputs } from './types.js';
import { memory } from './wasm/inline.js';

/** A WebAssembly module, and what its engines have in common. */
export interface EngineModule {
  readonly memory: EngineMemory;
  readonly reader: OutputReader;
  readonly Engine: new () => WasmEngine;
  /** The names of a quorum's servers, one on each line. Empty for one server. */
  readonly servers: string;
}

function moduleOf(wasmMemory: WebAssembly.Memory, Engine: EngineModule['Engine']): EngineModule {
  const memory = new EngineMemory(wasmMemory);
  return { memory, reader: new OutputReader(memory), Engine, servers: '' };
}

const ONE_SERVER = moduleOf(memory, WasmEngine);
let quorum: EngineModule | undefined;

/**
 * The engine of a quorum of these servers. It is a WebAssembly module of its own, loaded on first use, because few programs
 * need it.
 */
export async function quorumEngine(servers: readonly string[]): Promise<EngineModule> {
  const { Engine, memory } = await import('./wasm/quorum.js');
  quorum ??= moduleOf(memory, Engine);
  return { ...quorum, servers: servers.map((name) => name.replace(/\s/g, ' ')).join('\n') };
}

/**
 * One client's engine.
 *
 * Every input happens at `now`, in microseconds, and calls `outputs` before it returns. `op` is the number of a user's operation,
 * `call` the number of a command.
 */
export class Engine {
  readonly #wasm: WasmEngine;
  readonly #reader: OutputReader;
  readonly #record: InputRecord;
  readonly #outputs: Outputs;
  /** When the engine must be woken at the latest, in microseconds. Infinity for never. */
  wake = Infinity;

  /** Throws `invalid-option` for an option out of its bounds. `id` is 16 random bytes. */
  constructor(id: Uint8Array, config: Config, outputs: Outputs, { memory, reader, Engine, servers }: EngineModule = ONE_SERVER) {
    this.#wasm = new Engine();
    this.#reader = reader;
    this.#record = new InputRecord(this.#wasm, memory);
    this.#outputs = outputs;
    const record = this.#record;
    record.set(InputField.localHandoffs, config.localHandoffs);
    record.set(InputField.claimWindow, config.claimWindow);
    record.set(InputField.responseTimeout, config.responseTimeout);
    record.set(InputField.nodeTimeout, config.nodeTimeout);
    record.setFlag(InputField.mixedFleet, config.mixedFleet);
    record.set(InputField.fenceRetention, config.fenceRetention);
    let ended: Outcome | undefined;
    reader.read(this.#wasm.start(id, config.prefix, servers), { ...outputs, completed: (_, outcome) => (ended = outcome) });
    if (ended?.kind !== 'failed') return;
    this.free();
    throw new InvalidOptionError(camelCase(ended.error.field), ended.error.text);
  }

  acquire(now: number, op: number, { name, mode, kind }: LockSpec, { ttl, renew, maxHold, wait, within }: AcquireSettings): void {
    const record = this.#record;
    record.set(InputField.op, op);
    record.set(InputField.ttl, ttl);
    record.setFlag(InputField.renew, renew);
    record.setFlag(InputField.shared, mode === 'shared');
    record.setOptional(InputField.maxHold, maxHold);
    record.setOptional(InputField.wait, wait);
    record.setOptional(InputField.within, within);
    switch (kind.type) {
      case 'multi':
        record.setFlag(InputField.oneScript, kind.oneScript);
        record.beginList(kind.names.length);
        for (const { length } of kind.names) record.push(length);
        return this.#inputWithText(InputKind.acquireAll, now, kind.names.join(''));
      case 'reentrant':
        record.set(InputField.owner, kind.owner);
        break;
      case 'semaphore':
        record.set(InputField.permits, kind.permits);
        record.set(InputField.limit, kind.limit);
    }
    this.#inputWithText(InputKind.acquire, now, name);
  }

  cancel(now: number, op: number): void {
    this.#record.set(InputField.op, op);
    this.#input(InputKind.cancel, now);
  }

  release(now: number, op: number, lease: number): void {
    this.#leaseInput(InputKind.release, now, op, lease);
  }

  extend(now: number, op: number, lease: number, ttl: number): void {
    this.#record.set(InputField.ttl, ttl);
    this.#leaseInput(InputKind.extend, now, op, lease);
  }

  convert(now: number, op: number, lease: number, mode: Mode): void {
    this.#record.setFlag(InputField.shared, mode === 'shared');
    this.#leaseInput(InputKind.convert, now, op, lease);
  }

  hold(now: number, op: number, lease: number): void {
    this.#leaseInput(InputKind.hold, now, op, lease);
  }

  verify(now: number, op: number, lease: number): void {
    this.#leaseInput(InputKind.verify, now, op, lease);
  }

  inspect(now: number, op: number, name: string): void {
    this.#record.set(InputField.op, op);
    this.#inputWithText(InputKind.inspect, now, name);
  }

  forceRelease(now: number, op: number, name: string): void {
    this.#record.set(InputField.op, op);
    this.#inputWithText(InputKind.forceRelease, now, name);
  }

  close(now: number, op: number): void {
    this.#record.set(InputField.op, op);
    this.#input(InputKind.close, now);
  }

  /** The server has answered a command. */
  reply(now: number, call: number, reply: Reply): void {
    const record = this.#record;
    const isArray = Array.isArray(reply);
    const scalars = isArray ? (reply as readonly Scalar[]) : [reply as Scalar];
    let text = '';
    record.set(InputField.call, call);
    record.setFlag(InputField.array, isArray);
    record.beginList(2 * scalars.length);
    for (const scalar of scalars) {
      if (typeof scalar === 'number' && Number.isSafeInteger(scalar)) {
        record.push(ScalarKind.integer);
        record.push(scalar);
      } else if (scalar === null) {
        record.push(ScalarKind.nil);
        record.push(0);
      } else {
        const part = toText(scalar);
        record.push(ScalarKind.text);
        record.push(part.length);
        text += part;
      }
    }
    this.#inputWithText(InputKind.reply, now, text);
  }

  /** A command has no reply. */
  failed(now: number, call: number, failure: Failure): void {
    this.#record.set(InputField.call, call);
    this.#record.set(InputField.failure, FAILURE_KINDS.indexOf(failure.kind));
    this.#inputWithText(InputKind.failed, now, failureText(failure));
  }

  message(now: number, channel: string, payload: string): void {
    this.#record.set(InputField.channelLength, channel.length);
    this.#inputWithText(InputKind.message, now, channel + payload);
  }

  subscribed(now: number, channel: string): void {
    this.#inputWithText(InputKind.subscribed, now, channel);
  }

  unsubscribed(now: number, channel: string, cause: Failure): void {
    this.#record.set(InputField.channelLength, channel.length);
    this.#record.set(InputField.failure, FAILURE_KINDS.indexOf(cause.kind));
    this.#inputWithText(InputKind.unsubscribed, now, channel + failureText(cause));
  }

  /** Tells the engine that names are on different servers, so that a silent server delays only the names in slots near its own. */
  setCluster(): void {
    this.#wasm.setCluster();
  }

  /** Time has passed. */
  passed(now: number): void {
    this.#input(InputKind.wake, now);
  }

  /** When a lease ends unless it is renewed, in microseconds. Negative infinity once it was released or lost. */
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

  #leaseInput(kind: number, now: number, op: number, lease: number): void {
    this.#record.set(InputField.op, op);
    this.#record.set(InputField.lease, lease);
    this.#input(kind, now);
  }

  #input(kind: number, now: number): void {
    this.#read(this.#wasm.input(kind, now));
  }

  #inputWithText(kind: number, now: number, text: string): void {
    this.#read(this.#wasm.inputWithText(kind, now, text));
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
