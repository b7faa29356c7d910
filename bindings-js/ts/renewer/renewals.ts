/**
 * The worker's leases, and when it renews them.
 *
 * The main thread renews a lease at a third of its TTL, so a healthy one hears from the server at least that often. Once it was silent
 * for a bit longer, the worker renews, and again after each such time. The oldest renewal is then 2/3 of a TTL old, and there is time for
 * another attempt.
 *
 * The two threads' clocks may have different origins. Each message has the main thread's time at which it was sent, and it is read later. So
 * `time of the message - own time` is never more than the true difference, and the greatest of them is the best. The main thread's time
 * that follows from it is a bit too early, and never too late: a lease counts as a bit shorter.
 */

import type { CallResult, Reply } from '../connections/index.js';
import { Board, SLOTS } from './board.js';
import type { Entry, FromWorker, ToWorker } from './messages.js';

/** The worker's clock and its timer. Tests bring their own. */
export interface WorkerTime {
  /** A monotonic clock, in milliseconds. */
  now(): number;
  /** Calls `run` after so many milliseconds, in place of what it was asked for before. */
  wakeIn(ms: number, run: () => void): void;
}

/** The part of its TTL after which a lease is renewed. A bit more than the main thread's third. */
const PART = 0.35;
/** The shortest pause before another attempt, in milliseconds. */
const RETRY = 10;
const SECOND = 1_000;
/** No lease lasts longer, in milliseconds. */
const LONGEST = 31 * 86_400_000;

/** A manager of the main thread. */
interface Share {
  readonly boards: Board[];
  readonly entries: Map<number, Held>;
}

interface Held extends Entry {
  readonly board: Board;
  /** Since when the lease is known to last for `span`, in milliseconds of the main thread's clock. */
  from: number;
  span: number;
  /** Until when the server has confirmed it. */
  until: number;
  /** When the renewal was sent that has no answer. */
  sent: number | undefined;
  /** When to try again after a failure. */
  retry: number;
}

export class Renewals {
  readonly #call: (words: readonly string[]) => Promise<CallResult>;
  readonly #tell: (message: FromWorker) => void;
  readonly #time: WorkerTime;
  readonly #shares = new Map<number, Share>();
  readonly #scripts = new Map<string, string>();
  /** How far the main thread's clock is ahead, at least. */
  #ahead = -Infinity;
  /** When the timer fires, by the main thread's clock. */
  #wakes = Infinity;
  #isFailing = false;

  constructor(call: (words: readonly string[]) => Promise<CallResult>, tell: (message: FromWorker) => void, time: WorkerTime) {
    this.#call = call;
    this.#tell = tell;
    this.#time = time;
  }

  handle(message: ToWorker): void {
    this.#ahead = Math.max(this.#ahead, message.now - this.#time.now());
    switch (message.kind) {
      case 'board':
        return void this.#share(message.share).boards.push(new Board(message.buffer));
      case 'script':
        return void this.#scripts.set(message.digest, message.text);
      case 'hold':
        return this.#hold(message.entry);
      case 'drop':
        return void this.#shares.get(message.share)?.entries.delete(message.id);
      case 'end':
        return void this.#shares.delete(message.share);
    }
  }

  #share(number: number): Share {
    const share = this.#shares.get(number) ?? { boards: [], entries: new Map<number, Held>() };
    this.#shares.set(number, share);
    return share;
  }

  #hold(entry: Entry): void {
    const { boards, entries } = this.#share(entry.share);
    const board = boards[Math.floor(entry.slot / SLOTS)];
    if (board === undefined) return;
    const now = this.#now;
    const held: Held = { ...entry, board, from: now, span: Math.min(entry.ttl, entry.left), until: 0, sent: undefined, retry: 0 };
    // The first lease of a manager is renewed at once. So a module whose client leads to another server is noticed now, and not when the
    // program is blocked.
    if (entry.id === 1) held.span = 0;
    entries.set(entry.id, held);
    this.#plan(held);
  }

  /** The main thread's clock. */
  get #now(): number {
    return this.#time.now() + this.#ahead;
  }

  /** Renews what is due, and sets the timer for the next. */
  #wake(): void {
    const now = this.#now;
    this.#wakes = Infinity;
    let next = Infinity;
    for (const share of this.#shares.values()) {
      const heard = heardAt(share, now);
      for (const held of share.entries.values()) {
        if (held.ends <= now) {
          share.entries.delete(held.id);
          continue;
        }
        if (dueAt(held, heard) <= now) void this.#renew(held, now);
        next = Math.min(next, dueAt(held, heard), held.ends);
      }
    }
    this.#wakeAt(next);
  }

  /** Wakes in time for this lease, too. */
  #plan(held: Held): void {
    const share = this.#shares.get(held.share);
    if (share !== undefined) this.#wakeAt(Math.min(dueAt(held, heardAt(share, this.#now)), held.ends));
  }

  #wakeAt(at: number): void {
    if (at >= this.#wakes) return;
    this.#wakes = at;
    this.#time.wakeIn(Math.min(Math.max(1, Math.ceil(at - this.#now)), LONGEST_SLEEP), () => this.#wake());
  }

  async #renew(held: Held, now: number): Promise<void> {
    const ttl = Math.min(held.ttl, covering(held.ends - now));
    held.sent = now;
    const result = await this.#renewal(held, ttl);
    if (held.sent === now) held.sent = undefined;
    if (this.#shares.get(held.share)?.entries.get(held.id) !== held) return;
    const answer = 'reply' in result ? read(result.reply) : undefined;
    if (answer === undefined) {
      held.retry = this.#now + Math.max(RETRY, Math.min(held.ttl / 8, SECOND));
      this.#failed('failure' in result ? textOf(result.failure) : 'the reply is not that of a renewal');
    } else {
      this.#answered();
      if (answer.status === 'renewed') this.#confirmed(held, now, answer.left);
      else {
        this.#shares.get(held.share)?.entries.delete(held.id);
        this.#tell({ kind: 'gone', share: held.share, id: held.id });
      }
    }
    this.#plan(held);
  }

  async #renewal({ words }: Held, ttl: number): Promise<CallResult> {
    const result = await this.#call([...words, `${ttl}`]);
    const script = this.#scripts.get(words[1] ?? '');
    if (!('failure' in result) || !textOf(result.failure).startsWith('NOSCRIPT') || script === undefined) return result;
    return this.#call(['EVAL', script, ...words.slice(2), `${ttl}`]);
  }

  #confirmed(held: Held, sent: number, left: number): void {
    held.board.confirm(held.slot % SLOTS, { id: held.id, sent, left });
    if (sent < held.from) return;
    [held.from, held.span, held.retry] = [sent, Math.min(left, held.ttl), 0];
    held.until = Math.max(held.until, end(sent, left));
  }

  #failed(problem: string): void {
    if (!this.#isFailing) this.#tell({ kind: 'failing', problem });
    this.#isFailing = true;
  }

  #answered(): void {
    if (this.#isFailing) this.#tell({ kind: 'answered' });
    this.#isFailing = false;
  }
}

/** When the main thread last heard from the server, by its clock. */
function heardAt({ boards: [first] }: Share, now: number): number {
  return now - (first?.silence(now) ?? 0);
}

/** A timer of a host can't be longer than this, in milliseconds. */
const LONGEST_SLEEP = 3_600_000;

/** When to renew a lease, if the main thread last heard from the server at this time. */
function dueAt({ from, span, until, ends, sent, retry, ttl }: Held, heard: number): number {
  // It lasts as long as it may.
  if (until >= ends) return Infinity;
  const due = Math.max(span === 0 ? 0 : Math.max(heard, from) + PART * span, retry);
  // If a connection loses an answer, another attempt is made.
  return sent === undefined ? due : Math.max(due, sent + Math.max(RETRY, PART * ttl));
}

/** The engine's rule: less drift and margin. */
function end(sent: number, left: number): number {
  return sent + left - left / 100 - 2 - Math.min(left / 20, 50);
}

/** The TTL that lasts for `left` after drift and margin, in whole milliseconds. */
function covering(left: number): number {
  return Math.max(1, Math.ceil(Math.min(((left + 2) * 100) / 94, ((left + 52) * 100) / 99)));
}

/** Reads the answer of a renewal: its status, and the TTL as it is now. */
function read(reply: Reply): { status: string; left: number } | undefined {
  if (!Array.isArray(reply)) return undefined;
  const [word, , , , ms] = reply as readonly unknown[];
  const status = word instanceof Uint8Array ? new TextDecoder().decode(word) : word;
  const left = Number(ms);
  if (status === 'gone' || status === 'taken') return { status, left: 0 };
  return status === 'renewed' && Number.isSafeInteger(left) && left > 0 && left <= LONGEST ? { status, left } : undefined;
}

function textOf(failure: object): string {
  const { kind, text } = failure as { kind: string; text?: unknown };
  return text === undefined ? kind : String(text);
}
