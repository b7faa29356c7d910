/**
 * Asks the sentinels which server is the primary.
 *
 * The client subscribes to `+switch-master` at each sentinel and asks it at once when that message comes. It also asks every few
 * seconds, because a message may be lost. Sentinels may disagree for a while, and a sentinel that is cut off from the others gives
 * old answers, so the answer with the greatest epoch counts.
 *
 * https://redis.io/docs/latest/develop/reference/sentinel-clients/
 */

import { setTimerAlive } from '../support/host.js';
import type { IoRedis, IoRedisOptions } from './ioredis.js';
import { DuplicateClient } from './ioredis-duplicate.js';
import type { Address } from './link.js';

/** A sentinel's answer: the address of the primary. */
export interface PrimaryReport extends Address {
  /** Each failover has a greater epoch. */
  readonly epoch: number;
  /** When the sentinel answered, in milliseconds. */
  readonly at: number;
}

/** How long to wait for a message before a sentinel is asked again. */
const QUIET_MS = 5_000;
/** The same, if the sentinel doesn't let us subscribe. */
const POLL_MS = 500;
/** How long to wait before a lost connection to a sentinel is made again. */
const RETRY_MS = 250;
/** How long a sentinel may take to answer. After that, the connection counts as lost. */
const ANSWER_MS = 2_000;
/** After this time without a repetition, an answer loses to one with a smaller epoch: all sentinels may have been set up anew. */
const FORGOTTEN_MS = 30_000;

const SWITCHED = '+switch-master';

/** Whether the second answer replaces the first. */
export function isNewer(believed: PrimaryReport | undefined, told: PrimaryReport): boolean {
  return believed === undefined || told.epoch >= believed.epoch || told.at - believed.at > FORGOTTEN_MS;
}

export class Sentinels {
  /** Why the last question to a sentinel failed. */
  lastError: unknown;
  readonly #template: IoRedis;
  readonly #named: (primary: Address) => void;
  readonly #clients = new Set<DuplicateClient>();
  #believed: PrimaryReport | undefined;
  #alive = false;
  #closed = false;
  #wakeAll: (() => void)[] = [];

  /** Calls `named` with the first primary and with each one that replaces it. `template` is the user's Sentinel client. */
  constructor(template: IoRedis, named: (primary: Address) => void) {
    this.#template = template;
    this.#named = named;
    for (const sentinel of template.options?.sentinels ?? []) void this.#watch(sentinel);
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    for (const client of this.#clients) client.ref(alive);
  }

  close(): void {
    this.#closed = true;
    for (const client of this.#clients) client.destroy();
    for (const wake of this.#wakeAll.splice(0)) wake();
  }

  async #watch(sentinel: Sentinel): Promise<void> {
    while (!this.#closed) {
      const session = new Set<DuplicateClient>();
      try {
        await this.#listen(sentinel, session);
      } catch (error) {
        this.lastError = error;
      }
      for (const client of session) {
        this.#clients.delete(client);
        client.destroy();
      }
      await this.#pause(RETRY_MS);
    }
  }

  /** Listens to one sentinel until a connection is lost. One asks, the other subscribes, because a RESP2 subscriber can't ask. */
  async #listen(sentinel: Sentinel, session: Set<DuplicateClient>): Promise<void> {
    const [asking, messages] = [this.#connect(sentinel, session), this.#connect(sentinel, session)];
    let news = (): void => {};
    let quiet = POLL_MS;
    messages.client.on('message', () => news());
    const gone = Promise.race([ended(asking), ended(messages)]);
    // Ask once after subscribing, to find a failover that came before. A sentinel that doesn't let us subscribe is asked more often.
    const subscribed = messages.client.subscribe(SWITCHED).then(() => (quiet = QUIET_MS), () => {});
    void subscribed.then(() => news());
    for (;;) {
      const heard = new Promise<void>((resolve) => (news = resolve));
      await Promise.race([gone, this.#ask(asking), this.#late()]);
      await Promise.race([gone, heard, this.#pause(quiet)]);
    }
  }

  async #ask({ client }: DuplicateClient): Promise<void> {
    const name = this.#template.options?.name ?? '';
    // The order matters: during a failover a sentinel reports the new epoch before the new address.
    const [fields, address] = await Promise.all([client.call('SENTINEL', 'MASTER', name), client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)]);
    if (!Array.isArray(address)) throw new Error(`the sentinel doesn't know a primary named \`${name}\``);
    const told = { ...this.#mapped(String(address[0]), Number(address[1])), epoch: epochOf(fields), at: performance.now() };
    this.lastError = undefined;
    const { host, port } = this.#believed ?? {};
    if (this.#closed || !isNewer(this.#believed, told)) return;
    this.#believed = told;
    if (host !== told.host || port !== told.port) this.#named({ host: told.host, port: told.port });
  }

  /** Translates an address with `natMap`, as ioredis does. */
  #mapped(host: string, port: number): Address {
    const { natMap } = this.#template.options ?? {};
    const key = `${host}:${port}`;
    return (typeof natMap === 'function' ? natMap(key) : natMap?.[key]) || { host, port };
  }

  #connect({ host, port = 26379, family }: Sentinel, session: Set<DuplicateClient>): DuplicateClient {
    const { sentinelUsername = null, sentinelPassword = null, sentinelTLS } = this.#template.options ?? {};
    const client = new DuplicateClient(this.#template, {
      ...DIRECTLY, host, port, username: sentinelUsername, password: sentinelPassword, tls: sentinelTLS, ...(family === undefined ? {} : { family }),
      db: 0, enableReadyCheck: false, connectTimeout: ANSWER_MS,
    });
    session.add(client);
    this.#clients.add(client);
    client.ref(this.#alive);
    return client;
  }

  /** Our own timeout, because the library's timeouts keep the process alive. */
  async #late(): Promise<never> {
    await this.#pause(ANSWER_MS);
    throw new Error(`the sentinel did not answer within ${ANSWER_MS} ms`);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#wakeAll = this.#wakeAll.filter((wake) => wake !== end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      // A pending call keeps the process alive by itself.
      setTimerAlive(timer, false);
      this.#wakeAll.push(end);
    });
  }
}

type Sentinel = NonNullable<IoRedisOptions['sentinels']>[number];

/** Options of a client that connects to one server by its address. */
export const DIRECTLY = { sentinels: null, path: undefined };

/** Rejects once the connection is lost. */
function ended(own: DuplicateClient): Promise<never> {
  const gone = new Promise<never>((_, reject) => own.client.on('end', () => reject(own.lastError ?? new Error('the connection to the sentinel ended'))));
  gone.catch(() => {});
  return gone;
}

/** Reads the epoch from a flat list of names and values. */
function epochOf(fields: unknown): number {
  if (!Array.isArray(fields)) return 0;
  return Number(fields[fields.findIndex((field) => String(field) === 'config-epoch') + 1]) || 0;
}
