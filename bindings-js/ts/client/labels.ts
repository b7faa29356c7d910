/**
 * Labels: names for clients, for the people who look at locks.
 *
 * Each client writes its own label to the server, under a key that it alone writes. A client that takes free locks and soon gives
 * them back writes nothing: it does so when the engine first subscribes, because a caller waits or a lease is renewed, or when it
 * has held a lease for a second. Nothing depends on labels: if a command fails, only a label is missing.
 * `core/src/labels.rs` is the same for Rust.
 */

import { type CallResult, type Link, type Reply, type Scalar, type Time, timeOf } from '../connections/index.js';
import type { Command, Holder, Inspection, Waiter } from '../engine/index.js';
import type { BusyHolder } from '../support/errors.js';
import { setTimerRef } from '../support/host.js';
import { LABEL_RULES } from '../support/options.generated.js';
import type { Timer } from '../support/timers.js';
import { isLabel, type LeaseLabels } from './lease-labels.js';

const RULES = LABEL_RULES;

/** What a script answers, in place of milliseconds, as the remaining time of a key without a TTL. */
const NO_TTL = -1;

const TOKEN = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):\d+$/;
const decoder = new TextDecoder();

interface Held {
  /** Undefined for a key without a TTL, which is another library's or other data. */
  readonly clientId: string | undefined;
  readonly held: number | undefined;
  /** When the server said so. */
  readonly at: number;
}

/** Since when callers have found a key without a TTL, when they last did, and whether that was reported. */
interface Found {
  readonly since: number;
  readonly at: number;
  readonly reported: boolean;
}

/** Reports that callers have found a key without a TTL for a `window`. Both times are in milliseconds. */
export interface Blocking {
  readonly window: number;
  tell(key: string, waited: number): void;
}

export class Labels {
  readonly #link: Link;
  readonly #time: Time;
  readonly #clientId: string;
  readonly #label: () => string;
  readonly #timeout: number;
  readonly #blocking: Blocking;
  readonly #longestHeld: () => number | undefined;
  /** Fires when to look whether the client has held a lease for so long that it writes its label for the first time. */
  #due: Timer | undefined;
  /** What clients call their leases. */
  readonly leases: LeaseLabels;
  #written: number | undefined;
  /** Whether the client has no label, or is closed. */
  #isSilent = false;
  /** Whether the server may not have got it, because it was not there. */
  #unsure = false;
  /** What the server said about other clients, and when it was asked. */
  readonly #known = new Map<string, { readonly label: string | undefined; readonly asked: number }>();
  /** The holders of the locks that callers of this client want, by the lock's key. */
  readonly #holders = new Map<string, Held>();
  /** The keys without a TTL that callers have found within a window. So the other locks that are busy meanwhile push none of them out. */
  readonly #found = new Map<string, Found>();

  /**
   * `label` makes the client's own, empty for none. `timeout` is how long a command may take, and `longestHeld` how long the client has
   * held the oldest of its leases, if it has any, both in milliseconds.
   */
  constructor(
    link: Link, clientId: string, label: () => string, timeout: number, leases: LeaseLabels, blocking: Blocking, longestHeld: () => number | undefined,
  ) {
    this.#link = link;
    this.#time = timeOf(link);
    this.#clientId = clientId;
    this.#label = label;
    this.#timeout = timeout;
    this.leases = leases;
    this.#blocking = blocking;
    this.#longestHeld = longestHeld;
  }

  /** Writes the client's label. The engine subscribes again after each break, and then the server may be another one. */
  tell(): void {
    this.#time.clearTimeout(this.#due);
    this.#due = undefined;
    const label = this.#label();
    this.#isSilent ||= label === '';
    if (this.#isSilent) return;
    this.#written = this.#time.now();
    this.#unsure = false;
    void this.#call('SET', this.#clientId, label, 'PX', String(RULES.lasts)).then((result) => {
      // A user who may not write it would be refused again.
      this.#unsure = 'failure' in result && result.failure.kind !== 'refused';
    });
  }

  /** The client still uses locks. Writes its label again before the server forgets it. */
  keep(): void {
    const after = this.#unsure ? RULES.retry : RULES.again;
    if (this.#written !== undefined && this.#time.now() - this.#written >= after) this.tell();
  }

  /** The client closes, so nobody needs its label any more. */
  async close(): Promise<void> {
    this.#time.clearTimeout(this.#due);
    this.#isSilent = true;
    if (this.#written === undefined) return;
    this.#written = undefined;
    await this.#call('DEL', this.#clientId);
  }

  /**
   * Sees a reply of the server. If it says that a lock is busy, remembers who holds it. If a caller waits for the lock, asks for the
   * holder's label, so that an error at the end of the wait can tell it.
   */
  heard(command: Command, reply: Reply): void {
    if (!isList(reply) || reply.length < 9) return;
    const [status, server, token, since] = [text(reply[0]), Number(reply[3]), text(reply[7]), Number(reply[8])];
    const key = command.words[3];
    if (key === undefined || (status !== 'waiting' && status !== 'busy')) return;
    const [clientId, at] = [clientOf(token), this.#time.now()];
    this.#holders.delete(key);
    const isFound = clientId === undefined && Number(reply[4]) === NO_TTL;
    if (isFound) this.#finds(key, at);
    else this.#found.delete(key);
    if (clientId === undefined && !isFound) return;
    forgetOldest(this.#holders);
    const held = since > 0 ? Math.max(0, server - since) / 1_000 : undefined;
    this.#holders.set(key, { clientId, held, at });
    if (status === 'waiting' && clientId !== undefined) void this.#learn(clientId);
  }

  /** A caller has found a key without a TTL. */
  #finds(key: string, at: number): void {
    const { window } = this.#blocking;
    // A waiter asks more often than that.
    for (const [other, found] of this.#found) if (at - found.at > window) this.#found.delete(other);
    const { since, reported } = this.#found.get(key) ?? { since: at, reported: false };
    const reports = !reported && at - since >= window;
    if (reports) this.#blocking.tell(key, at - since);
    this.#found.set(key, { since, at, reported: reported || reports });
  }

  /** A caller has been granted a lock, so what was known about its holder is old. */
  granted(key: string): void {
    this.#holders.delete(key);
    this.#found.delete(key);
    if (this.#written === undefined && this.#due === undefined && !this.#isSilent) this.#tellIn(RULES.held);
  }

  /** Looks later whether the client has held a lease for long enough, so that others want to know its label. */
  #tellIn(milliseconds: number): void {
    this.#due = this.#time.setTimeout(() => {
      this.#due = undefined;
      const held = this.#longestHeld();
      if (held === undefined || this.#isSilent) return;
      if (held >= RULES.held) this.tell();
      else this.#tellIn(Math.ceil(RULES.held - held));
    }, milliseconds);
    setTimerRef(this.#due, 'unref');
  }

  /** What is known about the holder of a lock that a caller did not get. */
  holderOf(key: string): BusyHolder | undefined {
    const holder = this.#holders.get(key);
    if (holder === undefined) return undefined;
    const { clientId, held, at } = holder;
    if (clientId === undefined) return { clientId: '', label: undefined, held: undefined, isOwn: false, foreign: true };
    const label = this.#known.get(clientId)?.label;
    return { clientId, label, held: held && Math.round(held + this.#time.now() - at), isOwn: clientId === this.#clientId, foreign: false };
  }

  /** The client itself as the holder of a lock. */
  own(): BusyHolder {
    return { clientId: this.#clientId, label: this.#label() || undefined, held: undefined, isOwn: true, foreign: false };
  }

  /** Adds the labels to an inspection, all in one round trip, and what the clients tell about their leases. */
  async named(key: string, inspection: Inspection): Promise<Inspection> {
    const clients = [...new Set([...inspection.holders, ...inspection.waiters].map(({ token }) => clientOf(token)))];
    const known = clients.filter((client) => client !== undefined);
    const answers = this.leases.ask(key, known);
    const asked = known.slice(0, RULES.mostAsked);
    const labels = new Map(await Promise.all(asked.map(async (client) => [client, await this.#labelOf(client)] as const)));
    const answered = await answers;
    const of = ({ token }: Holder | Waiter): string => clientOf(token) ?? '';
    const holders = inspection.holders.map((holder): Holder => {
      const answer = answered.get(of(holder));
      const alone = inspection.holders.filter((other) => of(other) === of(holder)).length === 1;
      const held = (alone ? answer?.held : undefined) ?? holder.held;
      return { ...holder, label: labels.get(of(holder)) ?? null, leaseLabel: answer?.holder ?? null, held };
    });
    const waiters = inspection.waiters.map((waiter, place): Waiter => {
      // A client's first caller waits with its first token.
      const isFirst = inspection.waiters.findIndex((other) => of(other) === of(waiter)) === place;
      const answer = isFirst ? answered.get(of(waiter)) : undefined;
      return { ...waiter, label: labels.get(of(waiter)) ?? null, leaseLabel: answer?.waiter ?? null, waited: answer?.waited ?? waiter.waited };
    });
    return { ...inspection, holders, waiters };
  }

  async #learn(client: string): Promise<void> {
    const known = this.#known.get(client);
    const asked = this.#time.now();
    if (known !== undefined && (known.label !== undefined || asked - known.asked < RULES.askAgain)) return;
    forgetOldest(this.#known);
    this.#known.set(client, { label: undefined, asked });
    const label = await this.#labelOf(client);
    if (this.#known.has(client)) this.#known.set(client, { label, asked });
  }

  async #labelOf(client: string): Promise<string | undefined> {
    if (client === this.#clientId) return this.#label() || undefined;
    const result = await this.#call('GET', client);
    const label = 'reply' in result && !isList(result.reply) ? text(result.reply) : undefined;
    return label !== undefined && isLabel(label) ? label : undefined;
  }

  /** Runs a command about a client's label. A custom connection may never answer. */
  async #call(name: 'SET' | 'GET' | 'DEL', client: string, ...args: string[]): Promise<CallResult> {
    let timer: Timer | undefined;
    const timeout = new Promise<CallResult>((resolve) => {
      timer = this.#time.setTimeout(() => resolve({ failure: { kind: 'timed-out' } }), this.#timeout);
      setTimerRef(timer, 'unref');
    });
    try {
      return await Promise.race([this.#link.call([name, `leasehold:client:${client}`, ...args]), timeout]);
    } finally {
      this.#time.clearTimeout(timer);
    }
  }
}

function forgetOldest(map: Map<string, unknown>): void {
  const [oldest] = map.keys();
  if (oldest !== undefined && map.size >= RULES.remembered) map.delete(oldest);
}

/** The client's id in one of our tokens. */
function clientOf(token: string | undefined): string | undefined {
  return token === undefined ? undefined : TOKEN.exec(token)?.[1];
}

function isList(reply: Reply): reply is readonly Scalar[] {
  return Array.isArray(reply);
}

function text(scalar: Scalar | undefined): string | undefined {
  if (scalar instanceof Uint8Array) return decoder.decode(scalar);
  return typeof scalar === 'string' ? scalar : undefined;
}
