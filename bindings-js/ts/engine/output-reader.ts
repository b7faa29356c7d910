/** Reads the outputs of an input from the WebAssembly memory. `src/outcome.rs` writes them and describes the format. */

import type { Failure } from '../connections/index.js';
import type { ErrorCode, LossReason, Vote } from '../support/errors.js';
import { Command } from './command.js';
import type { EngineError, Grant, Holder, Inspection, Mode, Outcome, Outputs, ReleaseOutcome, Waiter } from './types.js';

const RELEASE_OUTCOMES: readonly ReleaseOutcome[] = ['released', 'still-held', 'already-expired', 'not-owner'];
export const FAILURE_KINDS: readonly Failure['kind'][] = ['refused', 'unavailable', 'interrupted', 'timed-out', 'unsupported', 'closed'];

const RELEASED: readonly Outcome[] = RELEASE_OUTCOMES.map((outcome) => ({ kind: 'released', outcome }));
const NO_VOTES: readonly Vote[] = [];

export const bytesToText = new TextDecoder('utf-8', { ignoreBOM: true });

/** Reads the memory of one module. Inputs come one after the other, so one reader is enough for all engines of the module. */
export class OutputReader {
  readonly #memory: WebAssembly.Memory;
  #view: Float64Array;
  #position = 0;
  #text = '';
  #textPosition = 0;

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
    this.#view = new Float64Array(memory.buffer);
  }

  /** Passes the outputs at this address to `outputs`. Returns when to wake the engine, in microseconds. */
  read(address: number, outputs: Outputs): number {
    // When the memory grows, the old view becomes empty.
    if (this.#view.length === 0) this.#view = new Float64Array(this.#memory.buffer);
    this.#position = address / 8;
    const wake = this.#number();
    let left = this.#number();
    const textStart = this.#number();
    const textBytes = this.#number();
    if (left === 0) return wake;
    this.#textPosition = 0;
    this.#text = textBytes === 0 ? '' : bytesToText.decode(new Uint8Array(this.#memory.buffer, textStart, textBytes));
    for (; left > 0; left--) this.#output(outputs);
    return wake;
  }

  #output(outputs: Outputs): void {
    const kind = this.#number();
    // The numbers are those of `src/outcome.rs`.
    switch (kind) {
      case 1: {
        const call = this.#number();
        return outputs.send(call, this.#number(), new Command(this.#string(), this.#number()));
      }
      case 2:
        this.#number();
        return outputs.subscribe(this.#string());
      case 3:
        this.#number();
        return outputs.unsubscribe(this.#string());
      case 13:
        return outputs.lost(this.#number(), this.#string() as LossReason);
      default:
        return outputs.completed(this.#number(), this.#outcome(kind));
    }
  }

  #outcome(kind: number): Outcome {
    switch (kind) {
      case 4:
        return { kind: 'acquired', grant: this.#grant() };
      case 5:
        return RELEASED[this.#number()] as Outcome;
      case 6:
        return { kind: 'extended', validUntil: this.#number() };
      case 7:
        return { kind: 'converted', grant: this.#grant() };
      case 8:
        return { kind: 'held', holds: this.#number() };
      case 9:
        return { kind: 'verified', held: this.#boolean() };
      case 10:
        return { kind: 'inspected', inspection: this.#inspection() };
      case 11:
        return { kind: 'closed', unreleased: this.#number() };
      case 14:
        return this.#grants();
      case 15:
        return { kind: 'revoked', holders: this.#number() };
      default:
        return { kind: 'failed', error: this.#error() };
    }
  }

  #grant(): Grant {
    return {
      lease: this.#number(),
      mode: this.#mode(),
      fence: this.#number(),
      validUntil: this.#number(),
      local: this.#boolean(),
    };
  }

  #grants(): Outcome {
    const lease = this.#number();
    const validUntil = this.#number();
    const fences = Array.from({ length: this.#number() }, () => this.#number());
    return { kind: 'acquired-all', lease, validUntil, fences };
  }

  #inspection(): Inspection {
    const lastFence = this.#optionalNumber() ?? null;
    const holders = new Array<Holder>(this.#number());
    const waiters = new Array<Waiter>(this.#number());
    for (let i = 0; i < holders.length; i++) {
      const mode = this.#mode();
      const remaining = this.#optionalNumber() ?? null;
      const foreign = this.#boolean();
      holders[i] = { token: this.#string(), mode, remaining, foreign };
    }
    for (let i = 0; i < waiters.length; i++) {
      const mode = this.#mode();
      waiters[i] = { token: this.#string(), mode };
    }
    return { holders, waiters, lastFence };
  }

  #error(): EngineError {
    const waited = this.#optionalNumber();
    const holderRemaining = this.#optionalNumber();
    const code = this.#string() as ErrorCode;
    const about = this.#string();
    const failure = this.#optionalNumber();
    const text = this.#string();
    const kind = failure === undefined ? undefined : FAILURE_KINDS[failure];
    const cause = kind === undefined ? undefined : kind === 'timed-out' ? { kind } : { kind, text };
    return { code, about, text, waited, holderRemaining, cause, votes: this.#votes() };
  }

  #votes(): readonly Vote[] {
    const count = this.#number();
    if (count === 0) return NO_VOTES;
    return Array.from({ length: count }, () => {
      const server = this.#string();
      const answer = this.#string();
      return { server, answer: answer === '' ? null : (answer as Vote['answer']), problem: this.#string() || undefined };
    });
  }

  #number(): number {
    return this.#view[this.#position++] as number;
  }

  #optionalNumber(): number | undefined {
    const number = this.#number();
    return number < 0 ? undefined : number;
  }

  #boolean(): boolean {
    return this.#number() === 1;
  }

  #mode(): Mode {
    return this.#boolean() ? 'shared' : 'exclusive';
  }

  #string(): string {
    const start = this.#textPosition;
    this.#textPosition += this.#number();
    return this.#text.slice(start, this.#textPosition);
  }
}
