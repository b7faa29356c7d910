/** The engine in WebAssembly. Inputs are written to its memory, and outputs are read from there. */

import { Engine as WasmEngine } from '../../generated/leasehold_js.js';
import type { Failure, Reply, Scalar } from '../connections/index.js';
import { FAILURE_KINDS } from '../support/errors.generated.js';
import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { FOR_ENGINE } from '../support/options.generated.js';
import { Calls } from './calls.generated.js';
import { type HostClocks, hostClocks, Moments } from './clocks.js';
import { InputField, InputKind, ScalarKind } from './codes.generated.js';
import { InputRecord } from './input-record.js';
import { writeKind } from './kinds.generated.js';
import { bytesToText, EngineMemory } from './memory.js';
import type { Outcome } from './outcomes.generated.js';
import { OutputReader, type Outputs } from './output-reader.js';
import { type AcquireSettings, type Config, type LockNameAndMode, type LockSpec, nameOnServer, type Renewal } from './types.js';
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
  if (quorum === undefined) {
    const { start } = await import('./wasm/quorum.js');
    const { Engine, memory } = start();
    // It has all but what is for a worker.
    quorum ??= moduleOf(memory, Engine as unknown as EngineModule['Engine']);
  }
  return { ...quorum, servers: servers.map((name) => name.replace(/\s/g, ' ')).join('\n') };
}

/**
 * One client's engine.
 *
 * Every input happens now, and calls `outputs` before it returns. `op` is the number of a user's operation, `id` the number of a
 * command. Times are in microseconds, by a clock that also counts the time in which the machine was suspended.
 */
export class Engine extends Calls {
  readonly #wasm: WasmEngine;
  readonly #reader: OutputReader;
  protected readonly record: InputRecord;
  readonly #outputs: Outputs;
  #clocks: HostClocks;
  #moments: Moments | undefined;
  /** When the latest input happened. */
  now = 0;
  /** When the engine must be woken at the latest. Infinity for never. */
  wake = Infinity;

  /** Throws `invalid-option` for an option out of its bounds. `id` is 16 random bytes. */
  constructor(
    id: Uint8Array, config: Config, outputs: Outputs, { memory, reader, Engine, servers }: EngineModule = ONE_SERVER, clocks: HostClocks = hostClocks(),
  ) {
    super();
    this.#wasm = new Engine();
    this.#reader = reader;
    this.record = new InputRecord(this.#wasm, memory);
    this.#outputs = outputs;
    this.#clocks = clocks;
    const record = this.record;
    const { prefix, ...fields } = config;
    for (const field of Object.keys(fields) as (keyof typeof fields)[]) record.setOption(InputField[field], fields[field]);
    let ended: Outcome | undefined;
    reader.read(this.#wasm.start(id, prefix, servers), this, { ...outputs, completed: (_, outcome) => (ended = outcome) });
    if (ended?.kind !== 'failed') return;
    this.free();
    throw new InvalidOptionError(camelCase(ended.error.field), ended.error.text);
  }

  /** Acquires the lock. With a token, takes over the lease of this token instead. */
  acquire(op: number, lock: LockSpec, settings: AcquireSettings, token?: string): void {
    const { mode, kind } = lock;
    const record = this.record;
    const { within, replicas } = settings;
    record.set(InputField.op, op);
    for (const field of FOR_ENGINE) record.setOption(InputField[field], settings[field]);
    record.setFlag(InputField.shared, mode === 'shared');
    record.setOptional(InputField.within, within);
    record.setOptional(InputField.replicas, replicas?.min);
    record.setOptional(InputField.replicaTimeout, replicas?.timeout);
    if (kind.type === 'multi') {
      record.setFlag(InputField.oneScript, kind.oneScript);
      record.beginList(3 * kind.parts.length);
      for (const part of kind.parts) {
        const { permits, limit } = part.kind.type === 'semaphore' ? part.kind : { permits: 0, limit: Number(part.mode === 'shared') };
        record.push(nameOnServer(part).length);
        record.push(permits);
        record.push(limit);
      }
      return this.inputWithText(InputKind.acquireAll, kind.parts.map(nameOnServer).join(''));
    }
    writeKind(record, kind);
    const name = nameOnServer(lock);
    if (kind.type === 'election') {
      record.set(InputField.channelLength, kind.value.length);
      return this.inputWithText(InputKind.campaign, kind.value + name);
    }
    if (token === undefined) return this.inputWithText(InputKind.acquire, name);
    record.set(InputField.channelLength, token.length);
    this.inputWithText(InputKind.adopt, token + name);
  }

  cancel(op: number): void {
    this.record.set(InputField.op, op);
    this.input(InputKind.cancel);
  }

  stopRenewing(lease: number): void {
    this.record.set(InputField.lease, lease);
    this.input(InputKind.stopRenewing);
  }

  /** The server has answered a command. */
  reply(id: number, reply: Reply): void {
    this.record.set(InputField.id, id);
    this.inputWithText(InputKind.reply, this.#writeReply(reply));
  }

  /** A command has no reply. */
  failed(id: number, failure: Failure): void {
    this.record.set(InputField.id, id);
    this.inputWithText(InputKind.failed, this.#writeFailure(failure));
  }

  /** The server has answered a command on the dedicated connection of an operation. */
  dedicatedReply(op: number, reply: Reply): void {
    this.record.set(InputField.op, op);
    this.inputWithText(InputKind.dedicatedReply, this.#writeReply(reply));
  }

  /** A command on the dedicated connection of an operation has no reply. */
  dedicatedFailed(op: number, failure: Failure): void {
    this.record.set(InputField.op, op);
    this.inputWithText(InputKind.dedicatedFailed, this.#writeFailure(failure));
  }

  message(channel: string, payload: string): void {
    this.record.set(InputField.channelLength, channel.length);
    this.inputWithText(InputKind.message, channel + payload);
  }

  subscribed(channel: string): void {
    this.inputWithText(InputKind.subscribed, channel);
  }

  unsubscribed(channel: string, cause: Failure): void {
    this.record.set(InputField.channelLength, channel.length);
    this.inputWithText(InputKind.unsubscribed, channel + this.#writeFailure(cause));
  }

  /**
   * Tells the engine that the connection with this index is to a cluster: names are on different servers, and a silent server
   * delays only the names in slots near its own.
   */
  setCluster(node: number): void {
    this.#wasm.setCluster(node);
  }

  /** Tells the engine that the server can delete a key by its value, with Valkey's `DELIFEQ` or Redis' `DELEX`. */
  setDeleteIfEqual(command: 'DELIFEQ' | 'DELEX'): void {
    this.#wasm.setDelete(command === 'DELIFEQ');
  }

  /** Uses the clocks of a server in memory, before the first input. */
  setClocks(clocks: HostClocks): void {
    this.#clocks = clocks;
    this.#wasm.setInMemory();
  }

  /** Says before an input that no other one follows now: what was said at one moment leaves together then, as after {@link passed}. */
  last(): void {
    this.record.setFlag(InputField.last, true);
  }

  /** Time has passed, and no other input follows now. */
  passed(): void {
    this.input(InputKind.wake);
  }

  /** How long a lease stays valid unless it is renewed. Negative infinity once it was released or lost. */
  remaining(lease: number): number {
    const now = this.#clocks.monotonic();
    return this.#wasm.remaining(lease, now, this.#clocks.wall(now));
  }

  /** From now on, {@link Engine.renewed} can be called. */
  noteMoments(): void {
    this.#moments ??= new Moments();
  }

  /** How another thread renews a lease. Empty for a fixed lease and for one that has ended. */
  renewals(lease: number): Renewal[] {
    return this.#reader.renewals(this.#wasm.renewals(lease));
  }

  /**
   * Another thread has renewed a lease. It sent the command at this time of the host's monotonic clock, or later, and `left` milliseconds
   * remained. Call it before an input, so that no timer counts before it.
   */
  renewed(lease: number, token: number, sent: number, left: number): void {
    const moment = this.#moments?.at(sent);
    if (moment !== undefined) this.#wasm.renewed(lease, token, moment, left);
  }

  /** The locks that linger: nobody holds them, and they are kept for the next caller of this client. */
  lingering(): LockNameAndMode[] {
    return this.#reader.lingering(this.#wasm.lingering());
  }

  /** Frees the engine's memory. The engine must not be used after this. */
  free(): void {
    this.#wasm.free();
  }

  /** Writes a reply into the record, and returns its texts. */
  #writeReply(reply: Reply): string {
    const record = this.record;
    const isArray = Array.isArray(reply);
    const scalars = isArray ? (reply as readonly Scalar[]) : [reply as Scalar];
    let text = '';
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
    return text;
  }

  /** Writes the kind of a failure into the record, and returns its text. A custom connection may have left the text out. */
  #writeFailure(failure: Failure): string {
    this.record.set(InputField.failure, FAILURE_KINDS.indexOf(failure.kind));
    return 'text' in failure ? String(failure.text) : '';
  }

  protected input(kind: number): void {
    const now = this.#clocks.monotonic();
    this.#read(now, this.#wasm.input(kind, now, this.#clocks.wall(now)));
  }

  protected inputWithText(kind: number, text: string): void {
    const now = this.#clocks.monotonic();
    this.#read(now, this.#wasm.inputWithText(kind, now, this.#clocks.wall(now), text));
  }

  #read(now: number, address: number): void {
    if (address === 0) throw new RangeError('the engine got a number that is out of range; please report this as a bug');
    this.#reader.read(address, this, this.#outputs);
    this.#moments?.note(now, this.now);
  }
}

/** Converts a scalar to text. Text and bytes stay as they are. Anything else becomes text that the engine rejects as a reply. */
function toText(scalar: unknown): string {
  if (typeof scalar === 'string') return scalar;
  return scalar instanceof Uint8Array ? bytesToText(scalar) : formatValue(scalar);
}

/** An option's name in JavaScript. The engine writes `max_hold`. */
export function camelCase(field: string): string {
  return field.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
