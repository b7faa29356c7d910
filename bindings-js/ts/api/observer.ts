/** Learns who leads an election. */

import type { Client } from '../client/index.js';
import { onAbort } from '../support/abort.js';
import { asyncDispose } from '../support/host.js';

/** The leader of an election, as an observer learned. */
export interface Leader {
  /** What it tells about itself: `value` of its {@link ElectionOptions}. */
  readonly value: string;
  /** Its term's number. A later term has a greater one, except after a failover that lost the last terms. */
  readonly fence: number;
  /** Since when it leads, by this machine's clock. */
  readonly since: Date;
}

/** A call of `next()`. */
interface Waiting {
  resolve(step: IteratorResult<Leader | null, undefined>): void;
  reject(error: unknown): void;
}

/** Learns who leads. Made by {@link Election.observe}. It begins with the first `next()`, and ends with the loop. */
export class Observer implements AsyncIterableIterator<Leader | null> {
  readonly #client: Client;
  readonly #name: string;
  readonly #signal: AbortSignal | undefined;
  readonly #waiting: Waiting[] = [];
  /** What it has learned last, until a step takes it. */
  #told: Leader | null | undefined;
  #failure: (() => unknown) | undefined;
  #stop: (() => void) | undefined;
  #ended = false;

  /** @internal */
  constructor(client: Client, name: string, signal: AbortSignal | undefined) {
    this.#client = client;
    this.#name = name;
    this.#signal = signal;
  }

  /** The first call resolves to who leads now. Each later call waits for a change. */
  next(): Promise<IteratorResult<Leader | null, undefined>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (this.#stop === undefined && !this.#ended) this.#begin();
      this.#serve();
    });
  }

  /** Ends the observation at once. A `next()` that waits resolves with `done: true`. */
  return(): Promise<IteratorResult<Leader | null, undefined>> {
    this.#told = undefined;
    this.#failure = undefined;
    this.#end();
    this.#serve();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The same as {@link Observer.return}, for `await using`. */
  async [asyncDispose](): Promise<void> {
    await this.return();
  }

  #begin(): void {
    const signal = this.#signal;
    if (signal?.aborted === true) return this.#fail(() => signal.reason);
    const stopListening = signal && onAbort(signal, () => {
      this.#told = undefined;
      this.#fail(() => signal.reason);
    });
    this.#stop = stopListening;
    const stopObserving = this.#client.observe(this.#name, (leader) => {
      this.#told = leader && { value: leader.value, fence: leader.fence, since: new Date(Date.now() - leader.led) };
      this.#serve();
    }, (makeError) => this.#fail(makeError));
    this.#stop = () => {
      stopListening?.();
      stopObserving();
    };
    // The observation may have failed at once.
    if (this.#ended) this.#end();
  }

  #fail(failure: () => unknown): void {
    // Ending the observation cancels its call, which then fails.
    if (this.#ended) return;
    this.#failure = failure;
    this.#end();
    this.#serve();
  }

  #end(): void {
    this.#ended = true;
    this.#stop?.();
    this.#stop = undefined;
  }

  /** Answers the calls of `next()` that wait, as long as there is something to tell. */
  #serve(): void {
    for (let waiting = this.#waiting[0]; waiting !== undefined; waiting = this.#waiting[0]) {
      const [told, failure] = [this.#told, this.#failure];
      if (told !== undefined) {
        this.#told = undefined;
        waiting.resolve({ value: told, done: false });
      } else if (failure !== undefined) {
        this.#failure = undefined;
        waiting.reject(failure());
      } else if (this.#ended) {
        waiting.resolve({ value: undefined, done: true });
      } else {
        return;
      }
      this.#waiting.shift();
    }
  }
}
