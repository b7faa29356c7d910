/**
 * The labels of leases: their holders tell them when an inspect asks for them.
 *
 *     inspect -> subscribe to the own channel -> asked <own id> <key> -> told <id> <held> <waited> <labels> <key>
 *
 * `core/src/labels/leases.rs` is the same for Rust.
 */

import { type CallResult, type Link, type Time, timeOf } from '../connections/index.js';
import { LABEL_RULES } from '../support/options.generated.js';
import type { Timer } from '../support/timers.js';

const RULES = LABEL_RULES;

const ID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const ASKED = new RegExp(`^asked (${ID}) ([^]*)$`);
const TOLD = new RegExp(`^told (${ID}) (\\d{1,15}|-) (\\d{1,15}|-) ([^\\n]*)\\n([^\\n]*)\\n([^]*)$`);
const encoder = new TextEncoder();

/** A lease, or a caller that waits: for how long, in milliseconds, and what it is called. */
export interface Called {
  readonly time: number;
  readonly label: string | undefined;
}

/** What a client has of a lock. */
export interface Own {
  readonly leases: readonly Called[];
  /** The caller that has waited longest. */
  readonly wait: Called | undefined;
}

/** What a client says about a lock. */
export interface Answer {
  readonly held: number | null;
  readonly waited: number | null;
  readonly holder: string | null;
  readonly waiter: string | null;
}

interface Asking {
  readonly key: string;
  readonly silent: Set<string>;
  readonly answers: Map<string, Answer>;
  readonly done: () => void;
}

export class LeaseLabels {
  readonly #link: Link;
  readonly #time: Time;
  readonly #clientId: string;
  readonly #own: (key: string) => Own;
  readonly #subscribe: () => void;
  #channel: 'off' | 'asked' | 'on' | 'never' = 'off';
  /** Whether the engine has subscribed by itself, so that it wants to know what becomes of it. */
  #ofEngine = false;
  #changed: (() => void)[] = [];
  readonly #asking = new Set<Asking>();
  /** When the current second began, and how many questions it had. */
  #second = { began: -Infinity, questions: 0 };

  /** `own` looks up what this client has of a lock. `subscribe` subscribes to the client's channel. */
  constructor(link: Link, clientId: string, own: (key: string) => Own, subscribe: () => void) {
    this.#link = link;
    this.#time = timeOf(link);
    this.#clientId = clientId;
    this.#own = own;
    this.#subscribe = subscribe;
  }

  /** The engine subscribes to the client's channel. */
  engineSubscribes(): void {
    this.#ofEngine = true;
    if (this.#channel === 'off') this.#channel = 'asked';
  }

  /** What became of the subscription: whether messages arrive, or never will. True if the engine did not ask for it. */
  channel(state: 'off' | 'on' | 'never'): boolean {
    this.#channel = state;
    if (state !== 'off') for (const tell of this.#changed.splice(0)) tell();
    return !this.#ofEngine;
  }

  /** A message of another client about leases. False if it is not about them. */
  hears(payload: string): boolean {
    if (payload.startsWith('told ')) this.#answered(payload);
    else if (payload.startsWith('asked ')) this.#asked(payload);
    else return false;
    return true;
  }

  /** Asks the clients about their leases of a lock. Resolves to the answers that came in time. */
  async ask(key: string, clients: readonly string[]): Promise<ReadonlyMap<string, Answer>> {
    const answers = new Map<string, Answer>();
    const own = clients.includes(this.#clientId) ? read(this.#answer(key)) : undefined;
    if (own !== undefined) answers.set(own.client, own.answer);
    const others = clients.filter((client) => client !== this.#clientId).slice(0, RULES.leasesAsked);
    const began = this.#time.now();
    if (others.length === 0 || !(await this.#listens())) return answers;
    await within(this.#time, RULES.patience - (this.#time.now() - began), (done) => {
      const asking = { key, silent: new Set(others), answers, done };
      this.#asking.add(asking);
      for (const client of others) {
        void this.#publish(client, `asked ${this.#clientId} ${key}`).then((result) => {
          if (!this.#isHeard(result)) giveUpOn(client, asking);
        });
      }
      return () => this.#asking.delete(asking);
    });
    return answers;
  }

  /** Whether messages arrive. Subscribes if nobody has yet. */
  async #listens(): Promise<boolean> {
    if (this.#channel === 'off' && !this.#ofEngine) {
      this.#channel = 'asked';
      this.#subscribe();
    }
    if (this.#channel !== 'on' && this.#channel !== 'never') {
      await within(this.#time, RULES.patience, (done) => {
        this.#changed.push(done);
        return () => (this.#changed = this.#changed.filter((other) => other !== done));
      });
    }
    return (this.#channel as string) === 'on';
  }

  #answered(payload: string): void {
    const answer = read(payload);
    if (answer === undefined) return;
    for (const asking of this.#asking) {
      // An answer counts once, and only if it was asked for.
      if (asking.key !== answer.key || !asking.silent.has(answer.client)) continue;
      asking.answers.set(answer.client, answer.answer);
      giveUpOn(answer.client, asking);
    }
  }

  #asked(payload: string): void {
    const [, asker, key] = ASKED.exec(payload) ?? [];
    if (asker === undefined || key === undefined || asker === this.#clientId) return;
    const now = this.#time.now();
    if (now - this.#second.began >= 1_000) this.#second = { began: now, questions: 0 };
    this.#second.questions += 1;
    if (this.#second.questions > RULES.mostAnswered) return;
    void this.#publish(asker, this.#answer(key));
  }

  /** What this client says about a lock. A client that has nothing of it says so, so that the asker does not wait. */
  #answer(key: string): string {
    const { leases, wait } = this.#own(key);
    const longest = [...leases].sort((a, b) => b.time - a.time);
    let labels = '';
    for (const label of new Set(longest.map(({ label }) => label))) {
      const more = label === undefined ? labels : labels === '' ? label : `${labels}, ${label}`;
      if (bytes(more) <= RULES.mostBytes) labels = more;
    }
    return `told ${this.#clientId} ${time(longest[0])} ${time(wait)} ${labels}\n${wait?.label ?? ''}\n${key}`;
  }

  /** Nothing depends on a message, so one that fails is an answer that is missing. */
  #publish(client: string, payload: string): Promise<CallResult> {
    return this.#link.call(['PUBLISH', `leasehold:${client}`, payload]);
  }

  /** Whether somebody got a message, as far as the server knows: a cluster counts only the subscribers of one server. */
  #isHeard(result: CallResult): boolean {
    return 'reply' in result && (this.#link.isCluster === true || Number(result.reply) !== 0);
  }
}

/** This client will not answer any more. */
function giveUpOn(client: string, { silent, done }: Asking): void {
  silent.delete(client);
  if (silent.size === 0) done();
}

function time(called: Called | undefined): string {
  return called === undefined ? '-' : String(Math.min(Math.max(0, Math.round(called.time)), 999_999_999_999_999));
}

function bytes(text: string): number {
  return encoder.encode(text).length;
}

/** Whether a client can have this label. The server may have any text. */
export function isLabel(text: string): boolean {
  return /^\P{Cc}+$/u.test(text) && bytes(text) <= RULES.mostBytes;
}

/** Reads an answer. Undefined if it is malformed. A label that breaks the limits is missing. */
function read(payload: string): { client: string; key: string; answer: Answer } | undefined {
  const [, client, held, waited, holder, waiter, key] = TOLD.exec(payload) ?? [];
  if (client === undefined || key === undefined) return undefined;
  const number = (text: string | undefined): number | null => (text === '-' ? null : Number(text));
  const label = (text = ''): string | null => (isLabel(text) ? text : null);
  return { client, key, answer: { held: number(held), waited: number(waited), holder: label(holder), waiter: label(waiter) } };
}

/** Waits until `begin`'s argument is called, but no longer than this, in milliseconds. Then calls what `begin` returned. */
async function within(time: Time, limit: number, begin: (done: () => void) => () => unknown): Promise<void> {
  let timer: Timer | undefined;
  let end: (() => unknown) | undefined;
  await new Promise<void>((resolve) => {
    timer = time.setTimeout(resolve, limit);
    end = begin(resolve);
  });
  time.clearTimeout(timer);
  end?.();
}
