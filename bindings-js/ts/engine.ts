/** The engine in WebAssembly: inputs go in as plain arguments, and what follows from them is read from its memory. */

import { Engine as Core } from '../generated/leasehold_js.js';
import { Command } from './command.js';
import type { Failure, Reply, Scalar } from './connections/link.js';
import type { ErrorCode, LossReason } from './errors.js';
import { shown } from './shown.js';
import { memory } from './wasm/inline.js';

/** Shared with readers, or exclusive. */
export type Mode = 'exclusive' | 'shared';

/** What became of a hold that was given back. */
export type ReleaseOutcome = (typeof RELEASES)[number];

/** What a holder is given. Moments are microseconds. */
export interface Grant {
  readonly lease: number;
  readonly mode: Mode;
  readonly fence: number;
  readonly validUntil: number;
  /** Whether it was handed over inside this client, without the server. */
  readonly local: boolean;
}

/**
 * Who holds a lock: the holder's token as it stands on the server.
 */
export interface Holder {
  /** What the server knows it by: `<manager's id>:<number>`, or a foreign client's own text. */
  readonly token: string;
  readonly mode: Mode;
  /** What its lease has left on the server, in milliseconds; null for a foreign key that never ends. */
  readonly remaining: number | null;
  /** Whether another library's client holds it. */
  readonly foreign: boolean;
}

/** Who waits for a lock. */
export interface Waiter {
  /** What the server knows it by: `<manager's id>:<number>`. */
  readonly token: string;
  /** How it wants to hold the lock. */
  readonly mode: Mode;
}

/** Who holds a lock and who waits for it, as the server saw it at one moment. */
export interface Inspection {
  /** None, one exclusive, or any number of readers. */
  readonly holders: readonly Holder[];
  /** In their order. */
  readonly waiters: readonly Waiter[];
  /** The last fence given out or reserved, if the server remembers it. */
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
}

/** How a call ended. */
export type Outcome =
  | { readonly kind: 'acquired' | 'converted'; readonly grant: Grant }
  | { readonly kind: 'released'; readonly outcome: ReleaseOutcome }
  | { readonly kind: 'extended'; readonly validUntil: number }
  | { readonly kind: 'held'; readonly holds: number }
  | { readonly kind: 'verified'; readonly held: boolean }
  | { readonly kind: 'inspected'; readonly inspection: Inspection }
  | { readonly kind: 'closed' }
  | { readonly kind: 'failed'; readonly error: EngineError };

/** What the engine wants done. None of these may call the engine. */
export interface Outputs {
  send(call: number, command: Command): void;
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
  readonly mixedFleet: boolean;
  readonly fenceRetention: number;
}

/** How a lock is wanted. Durations are milliseconds; `wait` is infinite for ever, and undefined for not at all. */
export interface Wish {
  readonly ttl: number;
  readonly renew: boolean;
  readonly maxHold: number | undefined;
  readonly wait: number | undefined;
}

/** One client's engine. Every input is taken in at `now`, in microseconds, and leads to `outputs` before it returns. */
export class Engine {
  readonly #core: Core;
  readonly #outputs: Outputs;
  /** When to wake it at the latest, in microseconds; negative for never. */
  wake = -1;

  /** Throws `"field\nproblem"` for an option out of its bounds. `id` is 16 random bytes. */
  constructor(id: Uint8Array, config: Config, outputs: Outputs) {
    const { prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention } = config;
    this.#core = new Core(id, prefix, localHandoffs, claimWindow, responseTimeout, mixedFleet, fenceRetention);
    this.#outputs = outputs;
  }

  acquire(now: number, op: number, name: string, mode: Mode, wish: Wish): void {
    const { ttl, renew, maxHold, wait } = wish;
    this.#read(this.#core.acquire(now, op, name, mode === 'shared', ttl, renew, maxHold, wait));
  }

  cancel(now: number, op: number): void {
    this.#read(this.#core.cancel(now, op));
  }

  release(now: number, op: number, lease: number): void {
    this.#read(this.#core.release(now, op, lease));
  }

  extend(now: number, op: number, lease: number, ttl: number): void {
    this.#read(this.#core.extend(now, op, lease, ttl));
  }

  convert(now: number, op: number, lease: number, mode: Mode): void {
    this.#read(this.#core.convert(now, op, lease, mode === 'shared'));
  }

  hold(now: number, op: number, lease: number): void {
    this.#read(this.#core.hold(now, op, lease));
  }

  verify(now: number, op: number, lease: number): void {
    this.#read(this.#core.verify(now, op, lease));
  }

  inspect(now: number, op: number, name: string): void {
    this.#read(this.#core.inspect(now, op, name));
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

  message(now: number, payload: string): void {
    this.#read(this.#core.message(now, 0, payload));
  }

  subscribed(now: number): void {
    this.#read(this.#core.subscribed(now, 0));
  }

  unsubscribed(now: number, cause: Failure): void {
    this.#read(this.#core.unsubscribed(now, 0, FAILURES.indexOf(cause.kind), wordsOf(cause)));
  }

  passed(now: number): void {
    this.#read(this.#core.wake(now));
  }

  /** When a lease ends unless it is renewed, in microseconds; negative once it was released or lost. */
  validUntil(lease: number): number {
    return this.#core.validUntil(lease);
  }

  /** Gives its memory back. It must not be used any more. */
  free(): void {
    this.#core.free();
  }

  #read(address: number): void {
    if (address === 0) throw new RangeError('the engine was given a number that does not fit');
    this.wake = row.read(address, this.#outputs);
  }
}

const RELEASES = ['released', 'still-held', 'already-expired', 'not-owner'] as const;
const FAILURES: readonly Failure['kind'][] = ['refused', 'unavailable', 'interrupted', 'timed-out', 'unsupported'];

const RELEASED: readonly Outcome[] = RELEASES.map((outcome) => ({ kind: 'released', outcome }));
const CLOSED: Outcome = { kind: 'closed' };

const bytesToText = new TextDecoder('utf-8', { ignoreBOM: true });

/** Reads what an input led to. `src/outcome.rs` writes it, and says how. */
class Row {
  #numbers = new Float64Array(memory.buffer);
  #at = 0;
  #text = '';
  #textAt = 0;

  read(address: number, outputs: Outputs): number {
    // The memory has grown: the old view is empty.
    if (this.#numbers.length === 0) this.#numbers = new Float64Array(memory.buffer);
    this.#at = address / 8;
    const wake = this.#next();
    let left = this.#next();
    const textStart = this.#next();
    const textBytes = this.#next();
    if (left === 0) return wake;
    this.#textAt = 0;
    this.#text = textBytes === 0 ? '' : bytesToText.decode(new Uint8Array(memory.buffer, textStart, textBytes));
    for (; left > 0; left--) this.#output(outputs);
    return wake;
  }

  #output(outputs: Outputs): void {
    const kind = this.#next();
    switch (kind) {
      case 1: {
        const call = this.#next();
        this.#next(); // The node: there is one.
        return outputs.send(call, new Command(this.#word(), this.#next()));
      }
      case 2:
        this.#next();
        return outputs.subscribe(this.#word());
      case 3:
        this.#next();
        return outputs.unsubscribe(this.#word());
      case 13:
        return outputs.lost(this.#next(), this.#word() as LossReason);
      default:
        return outputs.completed(this.#next(), this.#outcome(kind));
    }
  }

  #outcome(kind: number): Outcome {
    switch (kind) {
      case 4:
        return { kind: 'acquired', grant: this.#grant() };
      case 5:
        return RELEASED[this.#next()] as Outcome;
      case 6:
        return { kind: 'extended', validUntil: this.#next() };
      case 7:
        return { kind: 'converted', grant: this.#grant() };
      case 8:
        return { kind: 'held', holds: this.#next() };
      case 9:
        return { kind: 'verified', held: this.#flag() };
      case 10:
        return { kind: 'inspected', inspection: this.#inspection() };
      case 11:
        return CLOSED;
      default:
        return { kind: 'failed', error: this.#error() };
    }
  }

  #grant(): Grant {
    return {
      lease: this.#next(),
      mode: this.#mode(),
      fence: this.#next(),
      validUntil: this.#next(),
      local: this.#flag(),
    };
  }

  #inspection(): Inspection {
    const lastFence = this.#known() ?? null;
    const holders = new Array<Holder>(this.#next());
    const waiters = new Array<Waiter>(this.#next());
    for (let i = 0; i < holders.length; i++) {
      const mode = this.#mode();
      const remaining = this.#known() ?? null;
      const foreign = this.#flag();
      holders[i] = { token: this.#word(), mode, remaining, foreign };
    }
    for (let i = 0; i < waiters.length; i++) {
      const mode = this.#mode();
      waiters[i] = { token: this.#word(), mode };
    }
    return { holders, waiters, lastFence };
  }

  #error(): EngineError {
    const waited = this.#known();
    const holderRemaining = this.#known();
    const code = this.#word() as ErrorCode;
    const about = this.#word();
    const failure = this.#known();
    const text = this.#word();
    const kind = failure === undefined ? undefined : FAILURES[failure];
    const cause = kind === undefined ? undefined : kind === 'timed-out' ? { kind } : { kind, text };
    return { code, about, text, waited, holderRemaining, cause };
  }

  #next(): number {
    return this.#numbers[this.#at++] as number;
  }

  #known(): number | undefined {
    const number = this.#next();
    return number < 0 ? undefined : number;
  }

  #flag(): boolean {
    return this.#next() === 1;
  }

  #mode(): Mode {
    return this.#flag() ? 'shared' : 'exclusive';
  }

  #word(): string {
    const start = this.#textAt;
    this.#textAt += this.#next();
    return this.#text.slice(start, this.#textAt);
  }
}

const row = new Row();

/** A failure's words; a custom connection may have forgotten them. */
function wordsOf(failure: Failure): string {
  return 'text' in failure ? String(failure.text) : '';
}

/** Anything but a text becomes one that the engine can't take for an answer. */
function textOf(scalar: unknown): string {
  if (typeof scalar === 'string') return scalar;
  return scalar instanceof Uint8Array ? bytesToText.decode(scalar) : shown(scalar);
}
