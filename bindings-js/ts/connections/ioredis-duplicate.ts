/** Our own ioredis clients. They are duplicates of the user's client, and we close them. */

import type { IoRedis } from './ioredis.js';

/** The options in which our clients differ from the user's. All others, such as the login, are the same. */
const COPY = {
  lazyConnect: true,
  // The caller decides when to retry, with a new connection.
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  reconnectOnError: null,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  enableOfflineQueue: true,
  enableAutoPipelining: false,
  maxRetriesPerRequest: null,
  commandTimeout: undefined,
  socketTimeout: undefined,
  keyPrefix: '',
  keepAlive: 10_000,
  monitor: false,
  readOnly: false,
  himportFieldsets: undefined,
};

/** One of our clients. Its socket doesn't keep the process alive until `ref(true)` is called. */
export class DuplicateClient {
  readonly client: IoRedis;
  /** Why the client is not connected. */
  lastError: unknown;
  #alive = false;

  /** The client connects on `client.connect()`, or on the first command. */
  constructor(template: IoRedis, options: object) {
    this.client = template.duplicate({ ...COPY, ...options });
    this.client.on('error', (error: unknown) => (this.lastError = error));
    this.client.on('connecting', () => setImmediate(this.#tell));
    this.client.on('connect', this.#tell);
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    this.#tell();
  }

  /** Closes the client after the outstanding answers. */
  close(): void {
    // If the client has already ended, ioredis would wait for its end and keep the process alive.
    if (this.client.status !== 'end') this.client.disconnect();
  }

  /** Closes the client at once, without waiting for outstanding answers. */
  destroy(): void {
    this.close();
    this.client.stream?.destroy();
  }

  readonly #tell = (): void => {
    if (this.#alive) this.client.stream?.ref();
    else this.client.stream?.unref();
  };
}
