/** The memory of a WebAssembly module, in which inputs and outputs cross. */

export const bytesToText = new TextDecoder('utf-8', { ignoreBOM: true });

export class EngineMemory {
  readonly #memory: WebAssembly.Memory;
  #numbers: Float64Array;

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
    this.#numbers = new Float64Array(memory.buffer);
  }

  /** The memory as numbers. Valid until the next call into the module, which may grow the memory. */
  get numbers(): Float64Array {
    // When the memory grows, the old array becomes empty.
    if (this.#numbers.length === 0) this.#numbers = new Float64Array(this.#memory.buffer);
    return this.#numbers;
  }

  text(start: number, bytes: number): string {
    return bytes === 0 ? '' : bytesToText.decode(new Uint8Array(this.#memory.buffer, start, bytes));
  }
}
