/**
 * Leaves a server that has become a replica.
 *
 * An address may lead to another server after a failover: a name in DNS, a proxy, an address that moves. But the user's client stays
 * connected to the old server, which refuses each write with `READONLY`. So the manager opens a connection of its own to the same
 * address, and uses that one from then on. It doesn't reconnect the user's client.
 */

import { setTimerRef } from '../support/host.js';
import { HOST_TIME, type Timer } from '../support/timers.js';
import type { Answered, CallResult, DedicatedConnection, DedicatedOptions, Failed, Link } from './link.js';
import type { ReconnectingLink } from './reconnecting.js';
import { unavailable } from './results.js';
import { REPLACED, SwitchingLink } from './switching.js';

/** How long to wait before the next connection, if the address still leads to a replica, in milliseconds. */
const AGAIN_MS = 250;
/** How long a replaced connection stays open for its unanswered commands, in milliseconds. */
const ANSWERED_MS = 1_000;

type ClientLink = ReconnectingLink<unknown>;

/** A connection of the manager itself. */
export interface OwnConnection {
  readonly link: ClientLink;
  ref(alive: boolean): void;
  /** Closes it at once. */
  close(): void;
}

export class LeavingLink extends SwitchingLink {
  readonly library;
  readonly mayEnforceSlots = true;
  readonly send?: (wire: string, answered: Answered) => void;
  /** The link over the user's client. */
  readonly #first: ClientLink;
  readonly #open: () => OwnConnection;
  #own: OwnConnection | undefined;
  #openedAt = -Infinity;
  #again: Timer | undefined;
  /** Replaced connections that will be closed soon. */
  readonly #old = new Map<OwnConnection, Timer>();
  #alive = false;
  #reconnected: ((down: number) => void) | undefined;

  /** `open` opens a connection with the options of the user's client. */
  constructor(first: ClientLink, open: () => OwnConnection) {
    super();
    this.library = first.library;
    this.#first = first;
    this.#open = open;
    first.onDemoted = () => this.#leave(first);
    if (first.send !== undefined) this.send = (wire, answered) => this.current().send?.(wire, answered);
  }

  together(act: () => void): void {
    const link = this.current();
    if (link.together === undefined) act();
    else link.together(act);
  }

  call(args: readonly string[]): Promise<CallResult> {
    return this.current().call(args);
  }

  openDedicated(options: DedicatedOptions): Promise<DedicatedConnection> {
    return this.#first.openDedicated(options);
  }

  async close(): Promise<void> {
    // A replica may answer later.
    this.#first.onDemoted = undefined;
    this.#drop();
    await this.#first.close();
  }

  isClosed(): boolean {
    return this.#first.isClosed();
  }

  lastError(): unknown {
    return this.current().lastError();
  }

  onReconnect(listener: (down: number) => void, brokenAt?: number): void {
    this.#reconnected = listener;
    this.#first.onReconnect(listener, brokenAt);
  }

  ref(alive: boolean): void {
    this.#alive = alive;
    this.#first.ref(alive);
    this.#own?.ref(alive);
  }

  protected override current(): ClientLink {
    if (this.#own === undefined) return this.#first;
    // If the user closes the client, the manager's calls fail, too.
    if (this.#first.isClosed()) this.#drop();
    return this.#own?.link ?? this.#first;
  }

  protected override unknown(): Failed {
    return unavailable(REPLACED);
  }

  /** A server has refused a command, because it is a replica. */
  #leave(link: Link): void {
    if (link !== this.current() || this.#first.isClosed()) return;
    const wait = this.#openedAt + AGAIN_MS - HOST_TIME.now();
    if (wait > 0) {
      this.#again ??= HOST_TIME.setTimeout(() => {
        this.#again = undefined;
        this.#leave(link);
      }, wait);
      return setTimerRef(this.#again, 'unref');
    }
    const old = this.#own;
    const own = this.#open();
    this.#own = own;
    this.#openedAt = HOST_TIME.now();
    own.link.onDemoted = () => this.#leave(own.link);
    own.ref(this.#alive);
    if (this.#reconnected !== undefined) own.link.onReconnect(this.#reconnected, this.#openedAt);
    this.leave(link);
    if (old !== undefined) this.#retire(old);
  }

  #retire(old: OwnConnection): void {
    old.link.onDemoted = undefined;
    old.ref(false);
    const timer = HOST_TIME.setTimeout(() => this.#close(old), ANSWERED_MS);
    setTimerRef(timer, 'unref');
    this.#old.set(old, timer);
  }

  #close(old: OwnConnection): void {
    HOST_TIME.clearTimeout(this.#old.get(old));
    this.#old.delete(old);
    old.close();
  }

  #drop(): void {
    HOST_TIME.clearTimeout(this.#again);
    this.#again = undefined;
    for (const old of this.#old.keys()) this.#close(old);
    this.#own?.close();
    this.#own = undefined;
  }
}
