/**
 * ioredis 5 and 6 behind Sentinel.
 *
 * After a failover, up to ten seconds pass until the old primary becomes a replica, and all writes that it accepts until then are
 * lost. ioredis stays with the old primary until that breaks the connection. Even with its `failoverDetector`, ioredis accepts late
 * replies and may miss the message. So the user's client is only a model for our own connections: to its sentinels, and to the
 * server that they name. When they name another server, all pending commands count as interrupted at once. Later replies of the
 * old primary are ignored.
 */

import { HOST_TIME } from '../support/timers.js';
import { IoRedisLink } from './ioredis.js';
import { DuplicateClient } from './ioredis-duplicate.js';
import type { IoRedis } from './ioredis-types.js';
import type { Address, Answered, CallResult, DedicatedConnection, DedicatedOptions, Failed, Link } from './link.js';
import { ReadyGate } from './reconnecting.js';
import { closed, unavailable } from './results.js';
import { DIRECTLY, Sentinels } from './sentinels.js';
import { REPLACED, SwitchingLink } from './switching.js';
import { type Emitter, watch } from './watch.js';

/** The current primary. */
interface Primary {
  readonly duplicate: DuplicateClient;
  readonly link: IoRedisLink;
}

const UNKNOWN = 'no sentinel has named a primary';

/** How long to wait before the next attempt to reach the primary, in milliseconds. */
const retryStrategy = (attempts: number): number => Math.min(attempts * 20, 500);

export class IoRedisSentinelLink extends SwitchingLink {
  readonly library = 'ioredis';
  readonly #client: IoRedis;
  readonly #ready = new ReadyGate();
  readonly #unwatch: () => void;
  #sentinels: Sentinels | undefined;
  #primary: Primary | undefined;
  #alive = false;
  #closed = false;
  #reconnected: ((down: number) => void) | undefined;

  constructor(client: IoRedis) {
    super();
    this.#client = client;
    this.#unwatch = watch(client as Emitter, { end: () => this.#stop() });
  }

  call(args: readonly string[]): Promise<CallResult> {
    return this.#run((link) => link.call(args));
  }

  send(wire: string, answered: Answered): void {
    void this.#run((link) => new Promise((resolve) => link.send?.(wire, resolve))).then(answered);
  }

  async openDedicated({ key, timeout, closeOn }: DedicatedOptions): Promise<DedicatedConnection> {
    const primary = await this.#findPrimary();
    if (primary === undefined) throw this.lastError() ?? new Error(UNKNOWN);
    return primary.link.openDedicated({ key, timeout, closeOn });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#unwatch();
    this.#stop();
  }

  lastError(): unknown {
    return this.#primary === undefined ? this.#sentinels?.lastError : this.#primary.link.lastError();
  }

  onReconnect(listener: (down: number) => void): void {
    this.#reconnected = listener;
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    this.#sentinels?.ref(alive);
    this.#primary?.duplicate.ref(alive);
    this.#primary?.link.ref(alive);
  }

  protected override current(): Link | undefined {
    return this.#primary?.link;
  }

  protected override unknown(): Failed {
    return unavailable(UNKNOWN, this.lastError());
  }

  async #run(send: (link: IoRedisLink) => Promise<CallResult>): Promise<CallResult> {
    const primary = this.#primary ?? (await this.#findPrimary());
    if (this.isClosed()) return closed('the ioredis client was closed');
    if (primary === undefined) return unavailable(UNKNOWN, this.lastError());
    const result = await send(primary.link);
    if (primary === this.#primary || ('failure' in result && result.failure.kind === 'unavailable')) return result;
    return { failure: { kind: 'interrupted', text: REPLACED } };
  }

  /** The primary, as soon as a sentinel names it; undefined if that takes too long. */
  async #findPrimary(): Promise<Primary | undefined> {
    if (this.isClosed()) return undefined;
    if (this.#sentinels === undefined) {
      this.#sentinels = new Sentinels(this.#client, (address) => this.#switchTo(address));
      this.#sentinels.ref(this.#alive);
    }
    if (this.#primary === undefined) await this.#ready.wait();
    return this.#primary;
  }

  isClosed(): boolean {
    return this.#closed || this.#client.status === 'end';
  }

  /** Switches from the old primary to this server. */
  #switchTo(address: Address): void {
    const { enableTLSForSentinelMode, tls } = this.#client.options ?? {};
    const duplicate = new DuplicateClient(this.#client, { ...DIRECTLY, ...address, tls: enableTLSForSentinelMode === true ? tls : undefined, retryStrategy });
    const old = this.#primary;
    const link = new IoRedisLink(duplicate.client);
    if (this.#reconnected !== undefined) link.onReconnect(this.#reconnected, old && (old.link.brokenAt ?? HOST_TIME.now()));
    this.#primary = { duplicate, link };
    this.ref(this.#alive);
    duplicate.client.connect().catch(() => {});
    this.#disconnect(old);
    this.#ready.open();
  }

  #stop(): void {
    this.#sentinels?.close();
    this.#sentinels = undefined;
    const old = this.#primary;
    this.#primary = undefined;
    this.#disconnect(old);
    this.#ready.giveUp();
  }

  /** Closes the connection to the old primary. Its late replies are ignored. */
  #disconnect(old: Primary | undefined): void {
    if (old === undefined) return;
    void old.link.close();
    old.duplicate.destroy();
    this.leave(old.link);
  }
}
