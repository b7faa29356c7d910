/** Records the events of a subscription, so that a test can await them. */

import type { Failure, Link, SubscriptionListener } from '../connections/index.js';
import { PATIENCE_MS } from './generous.js';

type EventName = 'acknowledged' | 'message' | 'broken';

export class SubscriptionRecorder implements SubscriptionListener {
  readonly all: EventName[] = [];
  readonly #events: { name: EventName; value: string | Failure | undefined }[] = [];
  #wake: () => void = () => {};

  acknowledged = (): void => this.#record('acknowledged', undefined);
  message = (payload: string): void => this.#record('message', payload);
  broken = (failure: Failure): void => this.#record('broken', failure);

  /** Awaits the next event, which must be this one. */
  async next(name: EventName): Promise<string | Failure | undefined> {
    while (this.#events.length === 0) {
      const event = new Promise<void>((resolve) => (this.#wake = resolve));
      await within(event, () => `nothing more happened after ${this.all.join(', ')}; expected ${name}`);
    }
    const event = this.#events.shift();
    if (event?.name !== name) throw new Error(`the next event was ${event?.name} ${JSON.stringify(event?.value)}, not ${name}`);
    return event.value;
  }

  #record(name: EventName, value: string | Failure | undefined): void {
    this.all.push(name);
    this.#events.push({ name, value });
    this.#wake();
  }
}

/** Subscribes to the channel `leasehold:channel`. */
export async function subscribed(link: Link): Promise<SubscriptionRecorder> {
  const heard = new SubscriptionRecorder();
  link.subscribe?.('leasehold:channel', heard);
  await heard.next('acknowledged');
  return heard;
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
