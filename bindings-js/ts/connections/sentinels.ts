/**
 * Asks the sentinels which server is the primary.
 *
 * The client subscribes to `+switch-master` at each sentinel and asks it at once when that message comes. It also asks every few
 * seconds, because a message may be lost. `Reports` decides which answer counts.
 *
 * https://redis.io/docs/latest/develop/reference/sentinel-clients/
 */

import { setTimerRef } from '../support/host.js';
import { HOST_TIME } from '../support/timers.js';
import type { IoRedis, IoRedisOptions } from './ioredis-types.js';
import { DuplicateClient } from './ioredis-duplicate.js';
import type { Address } from './link.js';
import { Reports } from './reports.js';

/** How long to wait for a message before a sentinel is asked again. */
const RECHECK_MS = 5_000;
/** The same, if the sentinel doesn't let us subscribe. */
const POLL_MS = 500;
/** How long to wait before a lost connection to a sentinel is made again. */
const RETRY_MS = 250;
/** How long a sentinel may take to answer. After that, the connection counts as lost. */
const ANSWER_MS = 2_000;

const SWITCHED = '+switch-master';

export class Sentinels {
  /** Why the last question to a sentinel failed. */
  lastError: unknown;
  readonly #client: IoRedis;
  readonly #onPrimary: (primary: Address) => void;
  readonly #duplicates = new Set<DuplicateClient>();
  readonly #reports = new Reports();
  #alive = false;
  #closed = false;
  #pauses: (() => void)[] = [];

  /** Calls `onPrimary` with the first primary and with each one that replaces it. `client` is the user's Sentinel client. */
  constructor(client: IoRedis, onPrimary: (primary: Address) => void) {
    this.#client = client;
    this.#onPrimary = onPrimary;
    for (const sentinel of client.options?.sentinels ?? []) void this.#follow(sentinel);
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    for (const client of this.#duplicates) client.ref(alive);
  }

  close(): void {
    this.#closed = true;
    for (const client of this.#duplicates) client.destroy();
    for (const end of this.#pauses.splice(0)) end();
  }

  async #follow(sentinel: Sentinel): Promise<void> {
    while (!this.#closed) {
      const session = new Set<DuplicateClient>();
      try {
        await this.#listen(sentinel, session);
      } catch (error) {
        this.lastError = error;
      }
      for (const client of session) {
        this.#duplicates.delete(client);
        client.destroy();
      }
      await this.#pause(RETRY_MS);
    }
  }

  /** Listens to one sentinel until a connection is lost. One asks, the other subscribes, because a RESP2 subscriber can't ask. */
  async #listen(sentinel: Sentinel, session: Set<DuplicateClient>): Promise<void> {
    const [commands, messages] = [this.#duplicate(sentinel, session), this.#duplicate(sentinel, session)];
    let wake = (): void => {};
    let interval = POLL_MS;
    messages.client.on('message', () => wake());
    const gone = Promise.race([ended(commands), ended(messages)]);
    // Ask once after subscribing, to find a failover that came before. A sentinel that doesn't let us subscribe is asked more often.
    const subscribed = messages.client.subscribe(SWITCHED).then(() => (interval = RECHECK_MS), () => {});
    void subscribed.then(() => wake());
    for (;;) {
      const woken = new Promise<void>((resolve) => (wake = resolve));
      await Promise.race([gone, this.#ask(sentinel, commands), this.#timeout()]);
      await Promise.race([gone, woken, this.#pause(interval)]);
    }
  }

  async #ask(sentinel: Sentinel, { client }: DuplicateClient): Promise<void> {
    const name = this.#client.options?.name ?? '';
    // The order matters: during a failover a sentinel reports the new epoch before the new address.
    const [fields, address] = await Promise.all([client.call('SENTINEL', 'MASTER', name), client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)]);
    if (!Array.isArray(address)) throw new Error(`the sentinel doesn't know a primary named \`${name}\``);
    const primary = this.#translate(String(address[0]), Number(address[1]));
    this.lastError = undefined;
    if (this.#closed) return;
    if (this.#reports.take(sentinel, { ...primary, epoch: epochOf(fields), at: HOST_TIME.now() })) this.#onPrimary(primary);
  }

  /** Translates an address with `natMap`, as ioredis does. */
  #translate(host: string, port: number): Address {
    const { natMap } = this.#client.options ?? {};
    const key = `${host}:${port}`;
    return (typeof natMap === 'function' ? natMap(key) : natMap?.[key]) || { host, port };
  }

  #duplicate({ host, port = 26379, family }: Sentinel, session: Set<DuplicateClient>): DuplicateClient {
    const { sentinelUsername = null, sentinelPassword = null, sentinelTLS } = this.#client.options ?? {};
    const client = new DuplicateClient(this.#client, {
      ...DIRECTLY, host, port, username: sentinelUsername, password: sentinelPassword, tls: sentinelTLS, ...(family === undefined ? {} : { family }),
      db: 0, enableReadyCheck: false, connectTimeout: ANSWER_MS,
    });
    session.add(client);
    this.#duplicates.add(client);
    client.ref(this.#alive);
    return client;
  }

  /** Our own timeout, because the library's timeouts keep the process alive. */
  async #timeout(): Promise<never> {
    await this.#pause(ANSWER_MS);
    throw new Error(`the sentinel did not answer within ${ANSWER_MS} ms`);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        HOST_TIME.clearTimeout(timer);
        this.#pauses = this.#pauses.filter((other) => other !== end);
        resolve();
      };
      const timer = HOST_TIME.setTimeout(end, ms);
      // A pending operation keeps the process alive by itself.
      setTimerRef(timer, 'unref');
      this.#pauses.push(end);
    });
  }
}

type Sentinel = NonNullable<IoRedisOptions['sentinels']>[number];

/** Options of a client that connects to one server by its address. */
export const DIRECTLY = { sentinels: null, path: undefined };

/** Rejects once the connection is lost. */
function ended(duplicate: DuplicateClient): Promise<never> {
  const gone = new Promise<never>((_, reject) => duplicate.client.on('end', () => reject(duplicate.lastError ?? new Error('the connection to the sentinel ended'))));
  gone.catch(() => {});
  return gone;
}

/** Reads the epoch from a flat list of names and values. */
function epochOf(fields: unknown): number {
  if (!Array.isArray(fields)) return 0;
  return Number(fields[fields.findIndex((field) => String(field) === 'config-epoch') + 1]) || 0;
}
