/** The main thread's side, for one manager: tells the worker of leases, and the engine of what the worker has renewed. */

import { HOST } from '../support/timers.js';
import { Board, SLOTS } from './board.js';
import type { Entry } from './messages.js';
import { workerOf, type ModuleWorker } from './workers.js';

/** How to renew a lease of one name, or one part of a lease of several names, as the engine says it. */
export interface Renewable {
  /** The lease, or the lease of the part. */
  readonly lease: number;
  readonly token: number;
  /** When it ends at the latest, in microseconds by the engine's clock. */
  readonly ends: number;
  /** The renewal: `EVALSHA`, the digest, and so on. The last word is the TTL. */
  readonly words: readonly string[];
  /** The text of its script. */
  readonly script: string;
}

/** What a renewer needs of its client. */
export interface RenewerListener {
  /** How to renew a lease. Empty if nothing renews it. */
  renewals(lease: number): readonly Renewable[];
  /** How long a lease is still valid, in microseconds. */
  remaining(lease: number): number;
  /** The engine's clock, in microseconds. */
  readonly now: number;
  /** A lease was renewed by a command that was sent at this time of the host's clock or later. `left` remained. Both in milliseconds. */
  renewed(lease: number, token: number, sent: number, left: number): void;
  /** The worker's server says that this client doesn't hold a lease. */
  notHeld(lease: number): void;
  /** The worker can't renew, or can again. */
  state(error: Error | undefined): void;
}

/** A renewable that the worker knows. */
interface Known {
  readonly entry: Entry;
  readonly lease: number;
  readonly token: number;
  /** When the renewal was sent that the engine knows. */
  sent: number;
}

export class Renewer {
  readonly #listener: RenewerListener;
  readonly #worker: ModuleWorker;
  readonly #share: number;
  readonly #first = new Board();
  readonly #boards = [this.#first];
  /** The slots that nothing uses. The last one is used next. */
  readonly #free: number[] = [];
  /** What the worker knows, by the lease. A lease of several names has several. */
  readonly #known = new Map<number, readonly Known[]>();
  /** The scripts whose texts the worker has. */
  readonly #scripts = new Map<string, string>();
  #seen = 0;
  #lastId = 0;

  /** `module` is the URL of the module that makes the worker's client. Throws `unsupported` on a host without threads. */
  constructor(module: string, listener: RenewerListener) {
    this.#listener = listener;
    this.#addSlots(0);
    this.#worker = workerOf(module);
    this.#share = this.#worker.join({ started: () => this.#tellAll(), gone: (id) => this.#gone(id), state: (error) => listener.state(error) });
    this.#tellAll();
  }

  /** The server has answered, so this thread is not blocked. */
  hear(): void {
    this.#first.hear(HOST.now());
  }

  /** Tells the engine what the worker has renewed. Call it before each input. */
  sync(): void {
    const { changes } = this.#first;
    if (changes === this.#seen) return;
    this.#seen = changes;
    for (const parts of this.#known.values()) {
      for (const known of parts) this.#syncOne(known);
    }
  }

  #syncOne(known: Known): void {
    const { entry, lease, token } = known;
    const confirmed = this.#boards[Math.floor(entry.slot / SLOTS)]?.read(entry.slot % SLOTS);
    if (confirmed?.id !== entry.id || confirmed.sent <= known.sent) return;
    known.sent = confirmed.sent;
    this.#listener.renewed(lease, token, confirmed.sent, confirmed.left);
  }

  /** The worker is to renew a lease, or to renew it in another way. Call it after the engine has handled its input. */
  hold(lease: number): void {
    this.drop(lease);
    const renewables = this.#listener.renewals(lease);
    if (renewables.length === 0) return;
    const left = this.#listener.remaining(lease) / 1_000;
    this.#known.set(lease, renewables.map((renewable) => this.#add(renewable, left)));
  }

  #add({ lease, token, ends, words, script }: Renewable, left: number): Known {
    const [digest, ttl] = [words[1] ?? '', Number(words.at(-1))];
    if (!this.#scripts.has(digest)) {
      this.#scripts.set(digest, script);
      this.#worker.post({ kind: 'script', digest, text: script });
    }
    this.#lastId = (this.#lastId % MOST_IDS) + 1;
    const entry = {
      share: this.#share, id: this.#lastId, slot: this.#slot(), words: words.slice(0, -1), ttl, left,
      ends: HOST.now() + (ends - this.#listener.now) / 1_000,
    };
    this.#worker.post({ kind: 'hold', entry });
    return { entry, lease, token, sent: -Infinity };
  }

  /** The worker is to renew a lease no longer. */
  drop(lease: number): void {
    const parts = this.#known.get(lease);
    if (parts === undefined) return;
    this.#known.delete(lease);
    for (const { entry: { id, slot } } of parts) {
      this.#worker.post({ kind: 'drop', share: this.#share, id });
      this.#free.push(slot);
    }
  }

  close(): void {
    this.#known.clear();
    this.#worker.leave(this.#share);
  }

  #slot(): number {
    const slot = this.#free.pop();
    if (slot !== undefined) return slot;
    const board = new Board();
    this.#addSlots(this.#boards.push(board) - 1);
    this.#worker.post({ kind: 'board', share: this.#share, buffer: board.buffer });
    return this.#slot();
  }

  #addSlots(board: number): void {
    for (let slot = SLOTS - 1; slot >= 0; slot--) this.#free.push(board * SLOTS + slot);
  }

  /** A worker has started. It knows nothing yet. */
  #tellAll(): void {
    for (const { buffer } of this.#boards) this.#worker.post({ kind: 'board', share: this.#share, buffer });
    for (const [digest, text] of this.#scripts) this.#worker.post({ kind: 'script', digest, text });
    for (const { entry } of [...this.#known.values()].flat()) this.#worker.post({ kind: 'hold', entry });
  }

  #gone(id: number): void {
    for (const [lease, parts] of this.#known) {
      if (!parts.some(({ entry }) => entry.id === id)) continue;
      // The engine may have given the lease another token without a call of its holder.
      const current = this.#listener.renewals(lease);
      const isSame = current.length === parts.length && current.every(({ token }, at) => token === parts[at]?.token);
      if (!isSame) return this.hold(lease);
      this.drop(lease);
      return this.#listener.notHeld(lease);
    }
  }
}

/** Ids are stored in 32 bits. */
const MOST_IDS = 2 ** 31 - 1;
