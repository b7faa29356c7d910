/**
 * The sentinels that watch a primary, and which server they say that is.
 *
 * Each is listened to for `+switch-master` and asked at once when it says so; it is asked every few seconds as well, since a message may be lost.
 * Their answers may differ for a while, and one that is cut off from the others stays behind: the one with the greatest epoch is believed.
 *
 * https://redis.io/docs/latest/develop/reference/sentinel-clients/
 */

import { setAlive } from '../timer.js';
import type { IoRedis, IoRedisOptions } from './ioredis.js';
import { OwnClient } from './ioredis-own.js';
import type { Address } from './link.js';

/** What a sentinel says: each failover has a greater epoch. */
export interface Statement extends Address {
  readonly epoch: number;
  /** When it was made, in milliseconds. */
  readonly at: number;
}

/** A sentinel is asked again after so long without a message, and more often where it does not let us subscribe. */
const QUIET_MS = 5_000;
const POLL_MS = 500;
/** One that is gone is tried again after so long. */
const RETRY_MS = 250;
/** One that does not answer for so long is gone. */
const ANSWER_MS = 2_000;
/** A statement that no sentinel has repeated for so long is no longer worth more than an older epoch's: all may have been set up anew. */
const FORGOTTEN_MS = 30_000;

const SWITCHED = '+switch-master';

/** Whether the second statement takes the place of the first. */
export function isNewer(believed: Statement | undefined, told: Statement): boolean {
  return believed === undefined || told.epoch >= believed.epoch || told.at - believed.at > FORGOTTEN_MS;
}

export class Sentinels {
  /** Why the last one that was asked did not tell. */
  lastError: unknown;
  readonly #template: IoRedis;
  readonly #named: (primary: Address) => void;
  readonly #clients = new Set<OwnClient>();
  #believed: Statement | undefined;
  #alive = false;
  #closed = false;
  #wakeAll: (() => void)[] = [];

  /** `named` is told each server that takes the primary's place, the first one, too. `template` is a client of theirs. */
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
      const session = new Set<OwnClient>();
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

  /** Listens to one sentinel until it is gone. One connection asks, the other subscribes: over RESP2 a subscriber can't ask. */
  async #listen(sentinel: Sentinel, session: Set<OwnClient>): Promise<void> {
    const [asking, messages] = [this.#connect(sentinel, session), this.#connect(sentinel, session)];
    let news = (): void => {};
    let quiet = POLL_MS;
    messages.client.on('message', () => news());
    const gone = Promise.race([ended(asking), ended(messages)]);
    // One that does not let us subscribe is asked more often. What happens before the subscription is found by the question after it.
    const subscribed = messages.client.subscribe(SWITCHED).then(() => (quiet = QUIET_MS), () => {});
    void subscribed.then(() => news());
    for (;;) {
      const heard = new Promise<void>((resolve) => (news = resolve));
      await Promise.race([gone, this.#ask(asking), this.#late()]);
      await Promise.race([gone, heard, this.#pause(quiet)]);
    }
  }

  async #ask({ client }: OwnClient): Promise<void> {
    const name = this.#template.options?.name ?? '';
    // The order matters: during a failover a sentinel reports the new epoch before the new address.
    const [fields, address] = await Promise.all([client.call('SENTINEL', 'MASTER', name), client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)]);
    if (!Array.isArray(address)) throw new Error(`the sentinel watches no primary \`${name}\``);
    const told = { ...this.#mapped(String(address[0]), Number(address[1])), epoch: epochOf(fields), at: performance.now() };
    this.lastError = undefined;
    const { host, port } = this.#believed ?? {};
    if (this.#closed || !isNewer(this.#believed, told)) return;
    this.#believed = told;
    if (host !== told.host || port !== told.port) this.#named({ host: told.host, port: told.port });
  }

  /** As ioredis does it. */
  #mapped(host: string, port: number): Address {
    const { natMap } = this.#template.options ?? {};
    const key = `${host}:${port}`;
    return (typeof natMap === 'function' ? natMap(key) : natMap?.[key]) || { host, port };
  }

  #connect({ host, port = 26379, family }: Sentinel, session: Set<OwnClient>): OwnClient {
    const { sentinelUsername = null, sentinelPassword = null, sentinelTLS } = this.#template.options ?? {};
    const client = new OwnClient(this.#template, {
      ...DIRECTLY, host, port, username: sentinelUsername, password: sentinelPassword, tls: sentinelTLS, ...(family === undefined ? {} : { family }),
      db: 0, enableReadyCheck: false, connectTimeout: ANSWER_MS,
    });
    session.add(client);
    this.#clients.add(client);
    client.ref(this.#alive);
    return client;
  }

  /** The library's own timeouts keep the process alive. */
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
      setAlive(timer, false);
      this.#wakeAll.push(end);
    });
  }
}

type Sentinel = NonNullable<IoRedisOptions['sentinels']>[number];

/** Of a client that goes to one server, by its address. */
export const DIRECTLY = { sentinels: null, path: undefined };

/** Rejects once the connection is gone. */
function ended(own: OwnClient): Promise<never> {
  const gone = new Promise<never>((_, reject) => own.client.on('end', () => reject(own.lastError ?? new Error('the connection to the sentinel ended'))));
  gone.catch(() => {});
  return gone;
}

/** From a list of names and values. */
function epochOf(fields: unknown): number {
  if (!Array.isArray(fields)) return 0;
  return Number(fields[fields.findIndex((field) => String(field) === 'config-epoch') + 1]) || 0;
}
