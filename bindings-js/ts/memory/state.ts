/** The state of a server in memory, which its links share: keys, subscriptions and faults. */

import type { CallResult, Failed, SubscriptionListener } from '../connections/index.js';
import { Memory, readAnswer } from '../server/index.js';
import { soon } from '../support/timers.js';
import type { Clock } from './clock.js';

/** The server's wall clock when it is made, in µs: a day of the year 2027. Fences are times, and need as many digits as those of today. */
const EPOCH = 1_800_000_000_000_000;

export const STOPPED = 'it is stopped; call `start()` first';

const encoder = new TextEncoder();
let made = 0;

/** One channel of one manager. */
export interface Subscription {
  readonly channel: string;
  readonly listener: SubscriptionListener;
}

export class ServerState {
  readonly clock: Clock;
  isStopped = false;
  /** How long replies are held back, in milliseconds. */
  delay = 0;
  dropsNextReply = false;
  readonly #memory = new Memory();
  readonly #number = ++made;
  readonly #subscriptions = new Map<string, Set<Subscription>>();
  /** The commands that have run and whose reply is held back or lost. */
  readonly #unanswered = new Set<(result: CallResult) => void>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  get name(): string {
    return `server in memory ${this.#number}`;
  }

  stop(): void {
    this.isStopped = true;
    for (const answer of this.#unanswered) answer(interrupted());
    this.#unanswered.clear();
    for (const subscription of [...this.#subscriptions.values()].flatMap((listening) => [...listening])) {
      this.unsubscribe(subscription);
      soon(() => subscription.listener.broken(interrupted().failure));
    }
  }

  /** A command of a manager. It runs now. */
  call(args: readonly string[]): Promise<CallResult> {
    if (this.isStopped) return Promise.resolve({ failure: { kind: 'unavailable', text: STOPPED } });
    const [name = ''] = args;
    // The version and the identity are no commands of a lock, so faults don't apply.
    if (name === 'INFO') return Promise.resolve({ reply: `redis_version:6.2.0\r\nrun_id:${this.#number}\r\n` });
    const result = this.run(args);
    // The reply to a label would be missed by nobody.
    const isLost = this.dropsNextReply && name.startsWith('EVAL');
    if (isLost) this.dropsNextReply = false;
    if (!isLost && this.delay === 0) return Promise.resolve(result);
    return new Promise((resolve) => {
      this.#unanswered.add(resolve);
      if (!isLost) this.clock.after(this.delay, () => this.#unanswered.delete(resolve) && resolve(result));
    });
  }

  /** Runs a command, and delivers its messages. */
  run(args: readonly string[]): CallResult {
    const now = EPOCH + Math.round(this.clock.elapsed * 1_000);
    const lengths = Uint32Array.from(args, (word) => encoder.encode(word).length);
    const { result, messages } = readAnswer(this.#memory.call(now, encoder.encode(args.join('')), lengths));
    for (const { channel, payload } of messages) {
      for (const subscription of this.#subscriptions.get(channel) ?? []) {
        soon(() => this.#listens(subscription) && subscription.listener.message(payload));
      }
    }
    return result;
  }

  subscribe(subscription: Subscription): void {
    if (this.isStopped) return soon(() => subscription.listener.broken({ kind: 'unavailable', text: STOPPED }));
    const { channel, listener } = subscription;
    const listening = this.#subscriptions.get(channel);
    if (listening === undefined) this.#subscriptions.set(channel, new Set([subscription]));
    else listening.add(subscription);
    this.#memory.subscribe(channel);
    soon(() => this.#listens(subscription) && listener.acknowledged());
  }

  unsubscribe(subscription: Subscription): void {
    const { channel } = subscription;
    const listening = this.#subscriptions.get(channel);
    if (listening?.delete(subscription) !== true) return;
    if (listening.size === 0) this.#subscriptions.delete(channel);
    this.#memory.unsubscribe(channel);
  }

  #listens(subscription: Subscription): boolean {
    return this.#subscriptions.get(subscription.channel)?.has(subscription) === true;
  }
}

function interrupted(): Failed {
  return { failure: { kind: 'interrupted', text: 'the server in memory stopped before it answered' } };
}
