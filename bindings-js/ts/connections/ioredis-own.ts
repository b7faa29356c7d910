/** Clients of ioredis that are ours: made after the user's, and closed by us. */

import type { IoRedis } from './ioredis.js';

/** How such a client differs from the user's. Everything else, such as credentials, is the same. */
const COPY = {
  lazyConnect: true,
  // The caller decides when to try again, with a new connection.
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

/** One client of ours. Its socket does not keep the process alive until it is told to. */
export class OwnClient {
  readonly client: IoRedis;
  /** Why it is not connected. */
  lastError: unknown;
  #alive = false;

  /** It connects with `client.connect()`, or with the first command. */
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

  /** Ends it, after the answers that are on their way. */
  close(): void {
    // Of one that has ended ioredis would wait for the end, and keep the process alive for that.
    if (this.client.status !== 'end') this.client.disconnect();
  }

  /** Ends it now: what is on its way is not waited for. */
  destroy(): void {
    this.close();
    this.client.stream?.destroy();
  }

  readonly #tell = (): void => {
    if (this.#alive) this.client.stream?.ref();
    else this.client.stream?.unref();
  };
}
