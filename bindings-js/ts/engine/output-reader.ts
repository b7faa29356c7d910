/** Reads the outputs of an input from the WebAssembly memory. `src/output.rs` writes them and describes the format. */

import { ERROR_CODES, FAILURE_KINDS, LOSS_REASONS, RELEASE_OUTCOMES } from '../support/errors.generated.js';
import type { LossReason, Vote } from '../support/errors.js';
import { OutputKind } from './codes.generated.js';
import { Command } from './command.js';
import type { EngineMemory } from './memory.js';
import { type FieldReader, type Outcome, readOutcome } from './outcomes.generated.js';
import type { EngineError, EngineLeader, Grant, Holder, Inspection, LockNameAndMode, Mode, ReleaseOutcome, Renewal, Waiter } from './types.js';

const NO_NUMBERS = new Float64Array();
const NO_VOTES: readonly Vote[] = [];

/** What the engine asks the driver to do. The driver must not call the engine from within these. */
export interface Outputs {
  /** Sends a command. `id` is its number. `node` is the server's position in the quorum, or 0 if there is only one server. */
  send(id: number, node: number, command: Command): void;
  /**
   * Sends a command on a connection that carries no other operation's commands. The first command of an operation opens it, to the
   * server that has this key.
   */
  sendDedicated(op: number, key: string, command: Command): void;
  /** Closes an operation's dedicated connection, if there is one. */
  closeDedicated(op: number): void;
  subscribe(channel: string): void;
  unsubscribe(channel: string): void;
  /** A user's operation has ended. */
  completed(op: number, outcome: Outcome): void;
  /** An observation has learned that another client leads, or nobody. */
  leader(op: number, leader: EngineLeader | null): void;
  /** A lease was lost. */
  lost(lease: number, reason: LossReason): void;
}

/** Reads the memory of one module. Inputs come one after the other, so one reader is enough for all engines of the module. */
export class OutputReader implements FieldReader {
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
      return { name: this.text(), mode };
    });
  }

  /** What renews a lease, from the record at this address. */
  renewals(address: number): Renewal[] {
    return Array.from({ length: this.#begin(address, { now: 0, wake: 0 }) }, () => {
      const [lease, token, ends] = [this.number(), this.number(), this.number()];
      const command = new Command(this.text(), this.number());
      return { lease, token, ends, words: command.words, script: command.script };
    });
  }

  /** Reads the head of a record. Returns how many entries follow. */
  #begin(address: number, engine: { now: number; wake: number }): number {
    this.#numbers = this.#memory.numbers;
    this.#position = address / 8;
    engine.now = this.number();
    engine.wake = this.number();
    const count = this.number();
    const textStart = this.number();
    const textBytes = this.number();
    if (count > 0) {
      this.#textPosition = 0;
      this.#text = this.#memory.text(textStart, textBytes);
    }
    return count;
  }

  #output(outputs: Outputs): void {
    const kind = this.number();
    switch (kind) {
      case OutputKind.send: {
        const id = this.number();
        return outputs.send(id, this.number(), new Command(this.text(), this.number()));
      }
      case OutputKind.sendDedicated:
        return outputs.sendDedicated(this.number(), this.text(), new Command(this.text(), this.number()));
      case OutputKind.closeDedicated:
        return outputs.closeDedicated(this.number());
      case OutputKind.subscribe:
        return outputs.subscribe(this.text());
      case OutputKind.unsubscribe:
        return outputs.unsubscribe(this.text());
      case OutputKind.leader:
        return outputs.leader(this.number(), this.#leader());
      case OutputKind.lost:
        return outputs.lost(this.number(), this.#oneOf(LOSS_REASONS));
      default:
        return outputs.completed(this.number(), readOutcome(kind, this));
    }
  }

  grant(): Grant {
    return {
      lease: this.number(),
      mode: this.#mode(),
      fence: this.number(),
      validUntil: this.number(),
      local: this.flag(),
    };
  }

  #leader(): EngineLeader | null {
    const fence = this.#optionalNumber();
    const led = this.number();
    const value = this.text();
    return fence === undefined ? null : { value, fence, led };
  }

  numbers(): readonly number[] {
    return Array.from({ length: this.number() }, () => this.number());
  }

  released(): ReleaseOutcome {
    return this.#oneOf(RELEASE_OUTCOMES);
  }

  moment(): number {
    return this.number();
  }

  inspection(): Inspection {
    const lastFence = this.#optionalNumber() ?? null;
    const waiting = this.number();
    const limit = this.#optionalNumber() ?? null;
    const per = this.#optionalNumber() ?? null;
    const holders = new Array<Holder>(this.number());
    const waiters = new Array<Waiter>(this.number());
    for (let i = 0; i < holders.length; i++) {
      const mode = this.#mode();
      const remaining = this.#optionalNumber() ?? null;
      const foreign = this.flag();
      const held = this.#optionalNumber() ?? null;
      holders[i] = { token: this.text(), mode, remaining, foreign, label: null, leaseLabel: null, held };
    }
    for (let i = 0; i < waiters.length; i++) {
      const mode = this.#mode();
      const waited = this.#optionalNumber() ?? null;
      const callers = this.number();
      waiters[i] = { token: this.text(), mode, label: null, leaseLabel: null, waited, callers };
    }
    return { holders, waiters, waiting, lastFence, limit, per };
  }

  error(): EngineError {
    const code = this.#oneOf(ERROR_CODES);
    const waited = this.#optionalNumber();
    const holderRemaining = this.#optionalNumber();
    const waiters = this.#optionalNumber();
    const loss = this.#optionalNumber();
    const reason: LossReason | undefined = loss === undefined ? undefined : LOSS_REASONS[loss];
    const confirmed = this.#optionalNumber();
    const wanted = this.#optionalNumber();
    const field = this.text();
    const failure = this.#optionalNumber();
    const text = this.text();
    const kind = failure === undefined ? undefined : FAILURE_KINDS[failure];
    const cause = kind === undefined ? undefined : kind === 'timed-out' ? { kind } : { kind, text };
    return { code, field, reason, text, waited, holderRemaining, waiters, confirmed, wanted, cause, votes: this.#votes() };
  }

  #votes(): readonly Vote[] {
    const count = this.number();
    if (count === 0) return NO_VOTES;
    return Array.from({ length: count }, () => {
      const server = this.text();
      const answer = this.text();
      return { server, answer: answer === '' ? null : (answer as Vote['answer']), problem: this.text() || undefined };
    });
  }

  number(): number {
    return this.#numbers[this.#position++] as number;
  }

  /** An absent number is `NaN`. */
  #optionalNumber(): number | undefined {
    const number = this.number();
    return Number.isNaN(number) ? undefined : number;
  }

  #oneOf<Value>(values: readonly Value[]): Value {
    return values[this.number()] as Value;
  }

  flag(): boolean {
    return this.number() === 1;
  }

  #mode(): Mode {
    return this.flag() ? 'shared' : 'exclusive';
  }

  text(): string {
    const start = this.#textPosition;
    this.#textPosition += this.number();
    return this.#text.slice(start, this.#textPosition);
  }
}
