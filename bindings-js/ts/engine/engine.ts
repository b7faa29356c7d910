/** The engine in WebAssembly. Inputs are plain arguments; outputs are read from its memory. */

import { Engine as Core } from '../../generated/leasehold_js.js';
import type { Command } from './command.js';
import type { Failure, Reply, Scalar } from '../connections/link.js';
import { type ErrorCode, InvalidOptionError, type LossReason, type Vote } from '../support/errors.js';
import { camelCase } from '../client/engine-errors.js';
import type { Replicas } from '../client/replicas.js';
import { bytesToText, FAILURES, Row } from './output-reader.js';
import { shown } from '../support/format.js';
import { memory } from './wasm/inline.js';

/** How a lock is held: by one holder, or shared by many readers. */
export type Mode = 'exclusive' | 'shared';

/** The kind of a lock. A number that a kind doesn't have is -1. */
export interface Kind {
  readonly mode: Mode;
  /** The owner of a reentrant lock. */
  readonly owner: number;
  /** How many permits to take from a semaphore. */
  readonly permits: number;
  /** How many permits a semaphore has. */
  readonly limit: number;
  /** Several names that are taken as one lock. `oneScript` refuses names that one script can't take. */
  readonly names?: readonly string[];
  readonly oneScript?: boolean;
}

/** The plain kinds: one exclusive holder, or many readers. */
export const LOCK: Readonly<Record<Mode, Kind>> = {
  exclusive: { mode: 'exclusive', owner: -1, permits: -1, limit: -1 },
  shared: { mode: 'shared', owner: -1, permits: -1, limit: -1 },
};

/**
 * What a release did:
 *
 * - `released`: the lease was given back.
 * - `still-held`: other holds on the same lease remain.
 * - `already-expired`: the lease was lost before.
 * - `not-owner`: the lease was lost before, and another client holds the lock now.
 */
export type ReleaseOutcome = 'released' | 'still-held' | 'already-expired' | 'not-owner';

/** A granted lease. Times are in microseconds. */
export interface Grant {
  readonly lease: number;
  readonly mode: Mode;
  readonly fence: number;
  readonly validUntil: number;
  /** Whether the lock was handed over inside this client, without the server. */
  readonly local: boolean;
}

/** One holder of a lock, as the server knows it. */
export interface Holder {
  /** The holder's token on the server: `<manager's id>:<number>`, or any text if another library holds the lock. */
  readonly token: string;
  /** How the holder holds the lock. */
  readonly mode: Mode;
  /** How long the holder's lease lasts unless it is renewed, in milliseconds; `null` for a foreign key that never expires. */
  readonly remaining: number | null;
  /** Whether a client of another library holds the lock. */
  readonly foreign: boolean;
}

/** One waiter for a lock, as the server knows it. */
export interface Waiter {
  /** The waiter's token on the server: `<manager's id>:<number>`. */
  readonly token: string;
  /** How the waiter wants to hold the lock. */
  readonly mode: Mode;
}

/** The holders and the waiters of a lock, at one moment on the server. */
export interface Inspection {
  /**
   * No holder, one exclusive holder, or any number of readers. Several readers of one manager can appear as one holder. The
   * holders of a semaphore appear as `shared`.
   */
  readonly holders: readonly Holder[];
  /** The waiters, in the order of the queue. */
  readonly waiters: readonly Waiter[];
  /** The last fence that was given out or reserved; `null` if the server does not remember it. */
  readonly lastFence: number | null;
}

/** Why a call failed. */
export interface EngineError {
  readonly code: ErrorCode;
  /** The field of the option, or the reason of the loss. */
  readonly about: string;
  /** The message of the engine or of the server. */
  readonly text: string;
  readonly waited: number | undefined;
  readonly holderRemaining: number | undefined;
  /** How the last attempt failed, if no server was reached. */
  readonly cause: Failure | undefined;
  /** How each server of a quorum answered; empty for one server. */
  readonly votes: readonly Vote[];
}

/** How a call ended. */
export type Outcome =
  | { readonly kind: 'acquired' | 'converted'; readonly grant: Grant }
  | { readonly kind: 'acquired-all'; readonly lease: number; readonly validUntil: number; readonly fences: readonly number[] }
  | { readonly kind: 'released'; readonly outcome: ReleaseOutcome }
  | { readonly kind: 'extended'; readonly validUntil: number }
  | { readonly kind: 'held'; readonly holds: number }
  | { readonly kind: 'verified'; readonly held: boolean }
  | { readonly kind: 'inspected'; readonly inspection: Inspection }
  | { readonly kind: 'revoked'; readonly holders: number }
  | { readonly kind: 'closed'; readonly unreleased: number }
  | { readonly kind: 'failed'; readonly error: EngineError };

/** What the engine asks the driver to do. None of these may call the engine. */
export interface Outputs {
  /** `node` is the server's position in the quorum; 0 if there is only one server. */
  send(call: number, node: number, command: Command): void;
  subscribe(channel: string): void;
  unsubscribe(channel: string): void;
  completed(op: number, outcome: Outcome): void;
  lost(lease: number, reason: LossReason): void;
}

/** The options of a client. Durations are in milliseconds. */
export interface Config {
  readonly prefix: string;
  readonly localHandoffs: number;
  readonly claimWindow: number;
  readonly responseTimeout: number;
  /** For a quorum only. */
  readonly nodeTimeout: number;
  readonly mixedFleet: boolean;
  readonly fenceRetention: number;
}

/** The options of a lock. Durations are in milliseconds. `wait` is `Infinity` to wait forever, undefined not to wait. */
export interface Wish {
  readonly ttl: number;
  readonly renew: boolean;
  readonly maxHold: number | undefined;
  readonly wait: number | undefined;
  /** How long a call that does not wait may take, if this is shorter than the response timeout. */
  readonly within?: number | undefined;
  /** Used after the engine's grant. The engine doesn't know it. */
  readonly replicas?: Replicas | undefined;
}

/** A WebAssembly module that makes engines, and the reader of its memory. */
export interface Wasm {
  readonly row: Row;
  make(id: Uint8Array, config: Config): Core;
}

/** The calls on a lease. `src/engine.rs` has the same numbers. */
const LeaseCall = { release: 0, extend: 1, convert: 2, hold: 3, verify: 4 } as const;

const ONE_SERVER: Wasm = {
  row: new Row(memory),
  make: (id, { prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention }) =>
    new Core(id, prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention),
};

/** One client's engine. Every input happens at `now`, in microseconds, and calls `outputs` before it returns. */
export class Engine {
  readonly #core: Core;
  readonly #row: Row;
  readonly #outputs: Outputs;
  /** When the engine must be woken at the latest, in microseconds; negative for never. */
  wake = -1;

  /** Throws `invalid-option` for an option out of its bounds. `id` is 16 random bytes. */
  constructor(id: Uint8Array, config: Config, outputs: Outputs, { row, make }: Wasm = ONE_SERVER) {
    this.#core = make(id, config);
    this.#row = row;
    this.#outputs = outputs;
    let refusal: Outcome | undefined;
    row.read(this.#core.refusal(), { ...outputs, completed: (_, outcome) => (refusal = outcome) });
    if (refusal?.kind !== 'failed') return;
    this.free();
    throw new InvalidOptionError(camelCase(refusal.error.about), refusal.error.text);
  }

  acquire(now: number, op: number, name: string, kind: Kind, wish: Wish): void {
    const { mode, owner, permits, limit, names, oneScript = false } = kind;
    if (names !== undefined) return this.acquireAll(now, op, names, mode, wish, oneScript);
    const { ttl, renew, maxHold = -1, wait = -1, within = -1 } = wish;
    this.#read(this.#core.acquire(now, op, name, mode === 'shared', ttl, renew, maxHold, wait, within, owner, permits, limit));
  }

  /** Acquires several names. `oneScript` refuses names that one script can't take. */
  acquireAll(now: number, op: number, names: readonly string[], mode: Mode, wish: Wish, oneScript: boolean): void {
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
  return scalar instanceof Uint8Array ? bytesToText.decode(scalar) : shown(scalar);
}
