/** A manager's connection to a server in memory. */

import type { CallResult, Link, SubscriptionListener } from '../connections/index.js';
import { STOPPED, type ServerState, type Subscription } from './state.js';

export class MemoryLink implements Link {
  readonly library = 'memory';
  readonly time;
  readonly #server: ServerState;
  readonly #subscriptions = new Map<string, Subscription>();

  constructor(server: ServerState) {
    this.#server = server;
    this.time = server.clock;
  }

  call(args: readonly string[]): Promise<CallResult> {
    return this.#server.call(args);
  }

  subscribe(channel: string, listener: SubscriptionListener): void {
    this.unsubscribe(channel);
    const subscription = { channel, listener };
    this.#subscriptions.set(channel, subscription);
    this.#server.subscribe(subscription);
  }

  unsubscribe(channel: string): void {
    const subscription = this.#subscriptions.get(channel);
    if (subscription !== undefined) this.#server.unsubscribe(subscription);
    this.#subscriptions.delete(channel);
  }

  async close(): Promise<void> {
    for (const channel of [...this.#subscriptions.keys()]) this.unsubscribe(channel);
  }

  address(): string {
    return this.#server.name;
  }

  lastError(): unknown {
    return this.#server.isStopped ? new Error(STOPPED) : undefined;
  }
}
