/** Duplicates of the user's ioredis client. We open and close them ourselves. */

import { afterPendingIo } from '../support/timers.js';
import type { IoRedis } from './ioredis-types.js';

/** The options in which a duplicate differs from the user's client. All others, such as the login, are the same. */
const OVERRIDES = {
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
  // With RESP3, lists of pairs come as lists in a list.
  protocol: 2,
};

/** A duplicate. Its socket doesn't keep the process alive until `ref(true)` is called. */
export class DuplicateClient {
  readonly client: IoRedis;
  /** Why the client is not connected. */
  lastError: unknown;
  #alive = false;

  /** The duplicate connects on `client.connect()`, or on the first command. */
  constructor(original: IoRedis, options: object) {
    this.client = original.duplicate({ ...OVERRIDES, ...options });
    this.client.on('error', (error: unknown) => (this.lastError = error));
    this.client.on('connecting', () => afterPendingIo(this.#applyRef));
    this.client.on('connect', this.#applyRef);
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    this.#applyRef();
  }

  /** Closes the client after the outstanding replies. */
  close(): void {
    // If the client has already ended, ioredis would wait for its end and keep the process alive.
    if (this.client.status !== 'end') this.client.disconnect();
  }

  /** Closes the client at once, without waiting for outstanding replies. */
  destroy(): void {
    this.close();
    this.client.stream?.destroy();
  }

  readonly #applyRef = (): void => {
    const { stream } = this.client;
    // Node would add a listener to a broken socket with each call, to do it once the socket is connected again.
    if (stream?.destroyed === true) return;
    if (this.#alive) stream?.ref();
    else stream?.unref();
  };
}
