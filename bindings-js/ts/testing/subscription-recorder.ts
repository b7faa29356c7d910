/** Records the events of a subscription. */

import type { Failure, SubscriptionListener } from '../connections/index.js';
import { PATIENCE_MS } from './expect.js';

type Word = 'acknowledged' | 'message' | 'broken';

/** Records the events of a subscription, so that a test can await them. */
export class SubscriptionRecorder implements SubscriptionListener {
  readonly all: Word[] = [];
  readonly #told: { word: Word; value: string | Failure | undefined }[] = [];
  #wake: () => void = () => {};

  acknowledged = (): void => this.#tell('acknowledged', undefined);
  message = (payload: string): void => this.#tell('message', payload);
  broken = (failure: Failure): void => this.#tell('broken', failure);

  /** Awaits the next event, which must be this one. */
  async next(word: Word): Promise<string | Failure | undefined> {
    while (this.#told.length === 0) {
      const told = new Promise<void>((resolve) => (this.#wake = resolve));
      await within(told, () => `nothing more was heard after ${this.all.join(', ')}; expected ${word}`);
    }
    const told = this.#told.shift();
    if (told?.word !== word) throw new Error(`heard ${told?.word} ${JSON.stringify(told?.value)}, not ${word}`);
    return told.value;
  }

  #tell(word: Word, value: string | Failure | undefined): void {
    this.all.push(word);
    this.#told.push({ word, value });
    this.#wake();
  }
}

async function within(promise: Promise<void>, problem: () => string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error(problem())), PATIENCE_MS)));
  try {
    await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
