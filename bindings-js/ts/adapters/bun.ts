/**
 * `leasehold/bun`: a connection over Bun's own Redis client.
 *
 * It makes its own clients instead of taking yours. By default, Bun queues commands while a server is down and sends them after the
 * reconnect, when the manager has given them up. It also drops all subscriptions without an event. The options of a client can't be read.
 */

import { RedisClient } from 'bun';

import { InvalidOptionError } from '../index.js';
import { checkMode, messageOf, OnDemandConnection, type ServerConnection, type Transport, type TransportEvents } from './server-connection.js';

export type { ServerConnection };

export interface BunConnectionOptions {
  /** `true`, or Bun's TLS options such as `ca`, `cert` and `key`. */
  readonly tls?: boolean | object | undefined;
  /** How long Bun tries to connect, in milliseconds. Default: 10,000. A longer time has no effect. */
  readonly connectionTimeout?: number | undefined;
}

/**
 * A connection for `new LockManager(...)` over Bun's `RedisClient`. Close it after the manager: `connection.close()`.
 *
 * `url` is what `RedisClient` takes: `redis://user:password@host:6379/0`, `rediss://...` for TLS, or `redis+unix:///path`. The server
 * is a single one: a cluster is refused with `unsupported`, and so is `waitForReplicas`.
 *
 * @throws {InvalidOptionError} for a URL that Bun doesn't take, and for an option that is not in {@link BunConnectionOptions}.
 *
 * @example
 * ```ts
 * import { bunConnection } from 'leasehold/bun';
 *
 * const connection = bunConnection('redis://127.0.0.1:6379');
 * const locks = new LockManager(connection);
 * ```
 */
export function bunConnection(url: string, options: BunConnectionOptions = {}): ServerConnection {
  const address = addressIn(url);
  if (typeof options !== 'object' || options === null) throw new InvalidOptionError('options', 'must be an object');
  check('url', url, {});
  for (const [name, value] of Object.entries(options)) {
    if (!OPTIONS.includes(name)) throw new InvalidOptionError(name, `is not an option of bunConnection, which takes ${OPTIONS.join(' and ')}`);
    check(name, url, { [name]: value });
  }
  return new OnDemandConnection(address, (events) => new BunTransport(url, address, options, events));
}

const OPTIONS = ['tls', 'connectionTimeout'];
/** With these, Bun fails what it can't send at once, and reports every break. */
const STRICT = { autoReconnect: false, enableOfflineQueue: false };

/** Lets Bun check one option. This doesn't connect. */
function check(field: string, url: string, options: object): void {
  try {
    new RedisClient(url, { ...options, ...STRICT });
  } catch (cause) {
    throw new InvalidOptionError(field, `can't be used by Bun: ${messageOf(cause)}`, { cause });
  }
}

/** The address without the password. */
function addressIn(url: unknown): string {
  if (typeof url !== 'string' || !URL.canParse(url)) throw new InvalidOptionError('url', 'must be a URL such as `redis://127.0.0.1:6379`');
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host === '' ? pathname : host}`;
}

class BunTransport implements Transport {
  readonly opened: Promise<unknown>;
  readonly #client: RedisClient;
  readonly #events: TransportEvents;

  constructor(url: string, address: string, options: BunConnectionOptions, events: TransportEvents) {
    this.#events = events;
    this.#client = new RedisClient(url, { ...options, ...STRICT });
    this.#client.onclose = (error) => events.ended(error);
    this.opened = this.#connect(address);
  }

  send([name = '', ...args]: readonly string[]): Promise<unknown> {
    return this.#client.send(name, args);
  }

  subscribe(channel: string): Promise<unknown> {
    return this.#client.subscribe(channel, (payload, from) => this.#events.message(from, payload));
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.#client.unsubscribe(channel);
  }

  close(): void {
    this.#client.close();
  }

  async #connect(address: string): Promise<void> {
    let hello: { readonly mode?: unknown } | undefined;
    try {
      hello = await this.#client.connect();
    } catch (cause) {
      // Bun hides the server's error behind `Connection closed`.
      throw new Error(`${messageOf(cause)}. If the server runs, check the user name, the password and TLS`, { cause });
    }
    checkMode(hello?.mode, address);
  }
}
