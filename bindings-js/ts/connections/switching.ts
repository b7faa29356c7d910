/** The common part of links that may change to another server: all subscriptions end then, and their listeners are notified. */

import { soon } from '../support/timers.js';
import type { CallResult, DedicatedConnection, DedicatedOptions, Failed, Link, SubscriptionListener } from './link.js';
import { unavailable } from './results.js';

export const REPLACED = 'another server is the primary now';

export abstract class SwitchingLink implements Link {
  abstract readonly library: Link['library'];
  readonly leavesReplicas = true;
  readonly #listeners = new Map<string, SubscriptionListener>();

  /** The link to the current server. Undefined if none is known. */
  protected abstract current(): Link | undefined;
  /** Why no server is known. */
  protected abstract unknown(): Failed;
  abstract call(args: readonly string[]): Promise<CallResult>;
  abstract openDedicated(options: DedicatedOptions): Promise<DedicatedConnection>;
  abstract close(): Promise<void>;

  subscribe(channel: string, listener: SubscriptionListener): void {
    this.#listeners.set(channel, listener);
    const link = this.current();
    if (link?.subscribe === undefined) return this.#break(channel, this.unknown());
    link.subscribe(channel, {
      acknowledged: () => listener.acknowledged(),
      message: (payload) => listener.message(payload),
      broken: (failure, cause) => {
        if (this.#listeners.get(channel) === listener) this.#listeners.delete(channel);
        listener.broken(failure, cause);
      },
    });
  }

  unsubscribe(channel: string): void {
    this.#listeners.delete(channel);
    this.current()?.unsubscribe?.(channel);
  }

  address(): string | undefined {
    return this.current()?.address?.();
  }

  /** The link changes to another server. Ends all subscriptions at the old one. */
  protected leave(old: Link): void {
    for (const channel of this.#listeners.keys()) {
      old.unsubscribe?.(channel);
      this.#break(channel, unavailable(REPLACED));
    }
  }

  /** Ends a subscription. The listener is called asynchronously, as `SubscriptionListener` requires. */
  #break(channel: string, { failure, cause }: Failed): void {
    const listener = this.#listeners.get(channel);
    soon(() => {
      if (listener === undefined || this.#listeners.get(channel) !== listener) return;
      this.#listeners.delete(channel);
      listener.broken(failure, cause);
    });
  }
}
