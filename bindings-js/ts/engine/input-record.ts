/** Writes the numbers of an input into the WebAssembly memory. `src/input.rs` reads them. */

import type { Engine as WasmEngine } from '../../generated/leasehold_js.js';
import { InputField } from './codes.generated.js';
import type { EngineMemory } from './memory.js';

/** A position in the record. */
type Field = (typeof InputField)[keyof typeof InputField];

const FIELDS = Object.keys(InputField).length;
/** The room for the list at first. The answers of nearly all scripts fit. */
const ROOM = 32;

/** The record of one engine: its fields, and the list behind them. The engine empties it with each input. */
export class InputRecord {
  readonly #wasm: WasmEngine;
  readonly #memory: EngineMemory;
  /** The position of the record in the memory. */
  #start: number;
  #room = ROOM;
  /** The position of the next number of the list. */
  #next = 0;

  constructor(wasm: WasmEngine, memory: EngineMemory) {
    this.#wasm = wasm;
    this.#memory = memory;
    this.#start = wasm.record(ROOM) / 8;
  }

  /** Writes a field. One that is not written is absent. */
  set(field: Field, value: number): void {
    this.#memory.numbers[this.#start + field] = value;
  }

  /** Writes a field, unless there is no number. */
  setOptional(field: Field, value: number | undefined): void {
    if (value !== undefined) this.set(field, value);
  }

  setFlag(field: Field, flag: boolean): void {
    if (flag) this.set(field, 1);
  }

  setOption(field: Field, value: number | boolean | undefined): void {
    if (typeof value === 'boolean') this.setFlag(field, value);
    else this.setOptional(field, value);
  }

  /** Begins the list, which will have this many numbers. */
  beginList(length: number): void {
    if (length > this.#room) {
      this.#start = this.#wasm.record(length) / 8;
      this.#room = length;
    }
    this.set(InputField.listLength, length);
    this.#next = this.#start + FIELDS;
  }

  /** Adds a number to the list. */
  push(number: number): void {
    this.#memory.numbers[this.#next++] = number;
  }
}
