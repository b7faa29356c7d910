/** The engine in WebAssembly: inputs go in as plain arguments, and what follows from them is read from its memory. */

import { Engine as Core } from '../generated/leasehold_js.js';
import type { Command } from './command.js';
import type { Failure, Reply, Scalar } from './connections/link.js';
import { type ErrorCode, InvalidOptionError, type LossReason, type Vote } from './errors.js';
import { camelCase } from './outcome.js';
import type { Replicas } from './replicas.js';
import { bytesToText, FAILURES, Row } from './row.js';
import { shown } from './shown.js';
import { memory } from './wasm/inline.js';

/** How a lock is held: by one holder, or shared by many readers. */
export type Mode = 'exclusive' | 'shared';

/** What kind of lock is wanted, and how. What a kind does not have is -1. */
export interface Kind {
  readonly mode: Mode;
  /** Who takes a reentrant lock. */
  readonly owner: number;
  /** How many permits of a semaphore, and of how many. */
  readonly permits: number;
  readonly limit: number;
  /** Several names that are taken as one; `oneScript` refuses those that one script can't take. */
  readonly names?: readonly string[];
  readonly oneScript?: boolean;
}

/** A lock that is held by one, or shared with readers. */
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

/** What a holder is given. Moments are microseconds. */
export interface Grant {
  readonly lease: number;
  readonly mode: Mode;
  readonly fence: number;
  readonly validUntil: number;
  /** Whether it was handed over inside this client, without the server. */
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

/** Why a call ended without what was asked for. */
export interface EngineError {
  readonly code: ErrorCode;
  /** The option's field, or the reason of a loss. */
  readonly about: string;
  /** The engine's or the server's words. */
  readonly text: string;
  readonly waited: number | undefined;
  readonly holderRemaining: number | undefined;
  /** What the last attempt ran into, where nobody was reached. */
  readonly cause: Failure | undefined;
  /** What each server of a quorum said; none where there is one server. */
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

/** What the engine wants done. None of these may call the engine. */
export interface Outputs {
  /** `node` is the server's place among those of a quorum; 0 where there is one. */
  send(call: number, node: number, command: Command): void;
  subscribe(channel: string): void;
  unsubscribe(channel: string): void;
  completed(op: number, outcome: Outcome): void;
  lost(lease: number, reason: LossReason): void;
}

/** The options of a client. Durations are milliseconds. */
export interface Config {
  readonly prefix: string;
  readonly localHandoffs: number;
  readonly claimWindow: number;
  readonly responseTimeout: number;
  /** Of a quorum only. */
  readonly nodeTimeout: number;
  readonly mixedFleet: boolean;
  readonly fenceRetention: number;
}

/** How a lock is wanted. Durations are milliseconds; `wait` is infinite for ever, and undefined for not at all. */
export interface Wish {
  readonly ttl: number;
  readonly renew: boolean;
  readonly maxHold: number | undefined;
  readonly wait: number | undefined;
  /** How long a call that does not wait may take, if that is less than the response timeout. */
  readonly within?: number | undefined;
  /** Not the engine's affair: what comes after its grant. */
  readonly replicas?: Replicas | undefined;
}

/** WebAssembly that makes engines, and who reads its memory. */
export interface Wasm {
  readonly row: Row;
  make(id: Uint8Array, config: Config): Core;
}

/** What is asked of a lease. `src/engine.rs` says the same. */
const LeaseCall = { release: 0, extend: 1, convert: 2, hold: 3, verify: 4 } as const;

const ONE_SERVER: Wasm = {
  row: new Row(memory),
  make: (id, { prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention }) =>
    new Core(id, prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention),
};

/** One client's engine. Every input is taken in at `now`, in microseconds, and leads to `outputs` before it returns. */
export class Engine {
  readonly #core: Core;
  readonly #row: Row;
  readonly #outputs: Outputs;
  /** When to wake it at the latest, in microseconds; negative for never. */
  wake = -1;

  /** Throws an `invalid-option` for one out of its bounds. `id` is 16 random bytes. */
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

  /** Of several names. `oneScript` refuses those that one script can't take. */
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

  /** The names' slots are on different servers: one that is silent holds up the names near its own, and no others. */
  setCluster(): void {
    this.#core.setCluster();
  }

  passed(now: number): void {
    this.#read(this.#core.wake(now));
  }

  /** When a lease ends unless it is renewed, in microseconds; negative once it was released or lost. */
  validUntil(lease: number): number {
    return this.#core.validUntil(lease);
  }

  /** A harmless write to a lease, by digest and by source; none once it was released or lost, and of a quorum. */
  touch(lease: number): Command[] {
    const commands: Command[] = [];
    this.#row.read(this.#core.touch(lease), { ...this.#outputs, send: (_call, _node, command) => void commands.push(command) });
    return commands;
  }

  /** Gives its memory back. It must not be used any more. */
  free(): void {
    this.#core.free();
  }

  #ofLease(what: number, now: number, op: number, lease: number, value = 0): void {
    this.#read(this.#core.leaseCall(what, now, op, lease, value));
  }

  #read(address: number): void {
    if (address === 0) throw new RangeError('the engine was given a number that does not fit');
    this.wake = this.#row.read(address, this.#outputs);
  }
}

/** A failure's words; a custom connection may have forgotten them. */
function wordsOf(failure: Failure): string {
  return 'text' in failure ? String(failure.text) : '';
}

/** Anything but a text becomes one that the engine can't take for an answer. */
function textOf(scalar: unknown): string {
  if (typeof scalar === 'string') return scalar;
  return scalar instanceof Uint8Array ? bytesToText.decode(scalar) : shown(scalar);
}
