/** Reads the outputs of an input from the WebAssembly memory. `src/outcome.rs` writes them and describes the format. */

import type { Failure } from '../connections/index.js';
import type { ErrorCode, LossReason, Vote } from '../support/errors.js';
import { Command } from './command.js';
import type { EngineError, Grant, Holder, Inspection, Mode, Outcome, Outputs, ReleaseOutcome, Waiter } from './types.js';

const RELEASES: readonly ReleaseOutcome[] = ['released', 'still-held', 'already-expired', 'not-owner'];
export const FAILURES: readonly Failure['kind'][] = ['refused', 'unavailable', 'interrupted', 'timed-out', 'unsupported', 'closed'];

const RELEASED: readonly Outcome[] = RELEASES.map((outcome) => ({ kind: 'released', outcome }));
const NO_VOTES: readonly Vote[] = [];

export const bytesToText = new TextDecoder('utf-8', { ignoreBOM: true });

/** Reads the memory of one module. Inputs come one after the other, so one reader is enough for all of its engines. */
export class OutputReader {
  readonly #memory: WebAssembly.Memory;
  #numbers: Float64Array;
  #at = 0;
  #text = '';
  #textAt = 0;

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
    this.#numbers = new Float64Array(memory.buffer);
  }

  read(address: number, outputs: Outputs): number {
    // When the memory grows, the old view becomes empty.
    if (this.#numbers.length === 0) this.#numbers = new Float64Array(this.#memory.buffer);
    this.#at = address / 8;
    const wake = this.#next();
    let left = this.#next();
    const textStart = this.#next();
    const textBytes = this.#next();
    if (left === 0) return wake;
    this.#textAt = 0;
    this.#text = textBytes === 0 ? '' : bytesToText.decode(new Uint8Array(this.#memory.buffer, textStart, textBytes));
    for (; left > 0; left--) this.#output(outputs);
    return wake;
  }

  #output(outputs: Outputs): void {
    const kind = this.#next();
    switch (kind) {
      case 1: {
        const call = this.#next();
        return outputs.send(call, this.#next(), new Command(this.#word(), this.#next()));
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
        return { kind: 'closed', unreleased: this.#next() };
      case 14:
        return this.#grants();
      case 15:
        return { kind: 'revoked', holders: this.#next() };
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

  #grants(): Outcome {
    const lease = this.#next();
    const validUntil = this.#next();
    const fences = Array.from({ length: this.#next() }, () => this.#next());
    return { kind: 'acquired-all', lease, validUntil, fences };
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
    return { code, about, text, waited, holderRemaining, cause, votes: this.#votes() };
  }

  #votes(): readonly Vote[] {
    const count = this.#next();
    if (count === 0) return NO_VOTES;
    return Array.from({ length: count }, () => {
      const server = this.#word();
      const answer = this.#word();
      return { server, answer: answer === '' ? null : (answer as Vote['answer']), problem: this.#word() || undefined };
    });
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
