/** Reads the outputs of an input from the WebAssembly memory. `src/output.rs` writes them and describes the format. */

import { ERROR_CODES, FAILURE_KINDS, LOSS_REASONS, RELEASE_OUTCOMES } from '../support/errors.generated.js';
import type { LossReason, Vote } from '../support/errors.js';
import { OutputKind } from './codes.generated.js';
import { Command } from './command.js';
import type { EngineMemory } from './memory.js';
import type { EngineError, Grant, Holder, Inspection, LockNameAndMode, Mode, Outcome, Outputs, Waiter } from './types.js';

const RELEASED: readonly Outcome[] = RELEASE_OUTCOMES.map((outcome) => ({ kind: 'released', outcome }));
const NO_NUMBERS = new Float64Array();
const NO_VOTES: readonly Vote[] = [];

/** Reads the memory of one module. Inputs come one after the other, so one reader is enough for all engines of the module. */
export class OutputReader {
  readonly #memory: EngineMemory;
  #numbers: Float64Array = NO_NUMBERS;
  #position = 0;
  #text = '';
  #textPosition = 0;

  constructor(memory: EngineMemory) {
    this.#memory = memory;
  }

  /** Sets the engine's times, and passes the outputs at this address to `outputs`. */
  read(address: number, engine: { now: number; wake: number }, outputs: Outputs): void {
    for (let left = this.#begin(address, engine); left > 0; left--) this.#output(outputs);
  }

  /** The locks that linger, from the record at this address. */
  lingering(address: number): LockNameAndMode[] {
    return Array.from({ length: this.#begin(address, { now: 0, wake: 0 }) }, () => {
      const mode = this.#mode();
      return { name: this.#string(), mode };
    });
  }

  /** Reads the head of a record. Returns how many entries follow. */
  #begin(address: number, engine: { now: number; wake: number }): number {
    this.#numbers = this.#memory.numbers;
    this.#position = address / 8;
    engine.now = this.#number();
    engine.wake = this.#number();
    const count = this.#number();
    const textStart = this.#number();
    const textBytes = this.#number();
    if (count > 0) {
      this.#textPosition = 0;
      this.#text = this.#memory.text(textStart, textBytes);
    }
    return count;
  }

  #output(outputs: Outputs): void {
    const kind = this.#number();
    switch (kind) {
      case OutputKind.send: {
        const id = this.#number();
        return outputs.send(id, this.#number(), new Command(this.#string(), this.#number()));
      }
      case OutputKind.sendDedicated:
        return outputs.sendDedicated(this.#number(), this.#string(), new Command(this.#string(), this.#number()));
      case OutputKind.closeDedicated:
        return outputs.closeDedicated(this.#number());
      case OutputKind.subscribe:
        return outputs.subscribe(this.#string());
      case OutputKind.unsubscribe:
        return outputs.unsubscribe(this.#string());
      case OutputKind.lost:
        return outputs.lost(this.#number(), this.#oneOf(LOSS_REASONS));
      default:
        return outputs.completed(this.#number(), this.#outcome(kind));
    }
  }

  #outcome(kind: number): Outcome {
    switch (kind) {
      case OutputKind.acquired:
        return { kind: 'acquired', grant: this.#grant() };
      case OutputKind.acquiredAll:
        return this.#grants();
      case OutputKind.stored:
        return { kind: 'stored', fence: this.#number(), result: this.#string() };
      case OutputKind.forgotten:
        return { kind: 'forgotten', found: this.#boolean() };
      case OutputKind.released:
        return this.#oneOf(RELEASED);
      case OutputKind.extended:
        return { kind: 'extended', validUntil: this.#number() };
      case OutputKind.converted:
        return { kind: 'converted', grant: this.#grant() };
      case OutputKind.exported:
        return { kind: 'exported', token: this.#string() };
      case OutputKind.held:
        return { kind: 'held', holds: this.#number() };
      case OutputKind.verified:
        return { kind: 'verified', held: this.#boolean() };
      case OutputKind.inspected:
        return { kind: 'inspected', inspection: this.#inspection() };
      case OutputKind.revoked:
        return { kind: 'revoked', holders: this.#number() };
      case OutputKind.drained:
        return { kind: 'drained' };
      case OutputKind.closed:
        return { kind: 'closed', lost: this.#number(), unreleased: this.#number() };
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
    const waiting = this.#number();
    const holders = new Array<Holder>(this.#number());
    const waiters = new Array<Waiter>(this.#number());
    for (let i = 0; i < holders.length; i++) {
      const mode = this.#mode();
      const remaining = this.#optionalNumber() ?? null;
      const foreign = this.#boolean();
      const held = this.#optionalNumber() ?? null;
      holders[i] = { token: this.#string(), mode, remaining, foreign, label: null, leaseLabel: null, held };
    }
    for (let i = 0; i < waiters.length; i++) {
      const mode = this.#mode();
      const waited = this.#optionalNumber() ?? null;
      waiters[i] = { token: this.#string(), mode, label: null, leaseLabel: null, waited };
    }
    return { holders, waiters, waiting, lastFence };
  }

  #error(): EngineError {
    const code = this.#oneOf(ERROR_CODES);
    const waited = this.#optionalNumber();
    const holderRemaining = this.#optionalNumber();
    const loss = this.#optionalNumber();
    const reason: LossReason | undefined = loss === undefined ? undefined : LOSS_REASONS[loss];
    const confirmed = this.#optionalNumber();
    const wanted = this.#optionalNumber();
    const field = this.#string();
    const failure = this.#optionalNumber();
    const text = this.#string();
    const kind = failure === undefined ? undefined : FAILURE_KINDS[failure];
    const cause = kind === undefined ? undefined : kind === 'timed-out' ? { kind } : { kind, text };
    return { code, field, reason, text, waited, holderRemaining, confirmed, wanted, cause, votes: this.#votes() };
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
    return this.#numbers[this.#position++] as number;
  }

  /** An absent number is `NaN`. */
  #optionalNumber(): number | undefined {
    const number = this.#number();
    return Number.isNaN(number) ? undefined : number;
  }

  #oneOf<Value>(values: readonly Value[]): Value {
    return values[this.#number()] as Value;
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
