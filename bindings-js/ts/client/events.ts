/** What a manager tells its listeners, and the subscribers of `node:diagnostics_channel`. */

import type { LockKind, LockSpec, Mode, ReleaseOutcome } from '../engine/index.js';
import type { Entering } from '../support/entering.js';
import { type BusyHolder, type ErrorCode, InvalidOptionError, type LossReason } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { diagnosticsChannel, emitWarning } from '../support/host.js';

/**
 * How a lock is taken: `exclusive` is a mutex or a writer, `shared` a reader. The other kinds have a name of their own, and
 * `multi` means several names.
 */
export type EventMode = Mode | Exclude<LockKind['type'], 'lock'>;

/** A call asks for a lock. It is emitted inside the call, so `AsyncLocalStorage` has the caller's context. */
export interface AcquiringEvent {
  /** The number of the call. The {@link AcquireEvent} about its end has the same. A manager counts from 1. */
  readonly id: number;
  /** The lock's name, without the manager's prefix. Several names are separated by commas. */
  readonly name: string;
  /** How the call wants to hold the lock. */
  readonly mode: EventMode;
}

/** A call that asked for a lock has ended. `code` tells how. */
export type AcquireEvent = GrantedEvent | StoredEvent | NotGrantedEvent;

/** A call got the lock. It is emitted before the call's promise resolves. */
export interface GrantedEvent extends AcquiringEvent {
  /** Tells this event from {@link NotGrantedEvent}. */
  readonly code: 'granted';
  /** How long the call took, in milliseconds. */
  readonly waited: number;
  /** The lease's number in this manager. `release` and `lost` have the same. The owner of a reentrant lock gets one twice. */
  readonly lease: number;
  /** The lease's fencing token. Of several names it is the greatest. */
  readonly fence: number;
  /** Whether the lock was handed over inside this manager, without the server. */
  readonly local: boolean;
}

/** A call of {@link LockManager.once} found the result, so it needs no lock. */
export interface StoredEvent extends AcquiringEvent {
  /** Tells this event from the others. */
  readonly code: 'stored';
  /** How long the call took, in milliseconds. */
  readonly waited: number;
  /** It has none. */
  readonly error?: undefined;
}

/** A call didn't get the lock. A `tryAcquire` that resolves to `null` is `busy`. */
export interface NotGrantedEvent extends AcquiringEvent {
  /** The stable code of the error; `cancelled` if the call's signal aborted. */
  readonly code: ErrorCode;
  /** How long the call took, in milliseconds. */
  readonly waited: number;
  /** What the call rejects with: an error of this package, or the signal's reason. */
  readonly error: unknown;
  /** Who holds the lock, if the call is `busy` and it is known. */
  readonly holder?: BusyHolder | undefined;
}

/** Which lease an event is about. */
interface LeaseEvent {
  /** The lease's number in this manager, as in {@link GrantedEvent}. */
  readonly lease: number;
  /** The lock's name, without the manager's prefix. Several names are separated by commas. */
  readonly name: string;
  /** How the lock was held. */
  readonly mode: EventMode;
  /** The lease's fencing token. Of several names it is the greatest. */
  readonly fence: number;
  /** How long the lease was held until now, in milliseconds. */
  readonly held: number;
}

/**
 * A release has ended. A lease that was lost before has no such event: each lease ends with one `lost`, or with one `release`
 * whose code is not `still-held`.
 */
export interface ReleaseEvent extends LeaseEvent {
  /**
   * What {@link Lease.release} resolves to, or the code of the error that it rejects with. `closed` if the manager's `close()`
   * gave the lease back.
   */
  readonly code: ReleaseOutcome | ErrorCode;
}

/** A lease was lost while the program had it. It is emitted when `lease.signal` aborts. */
export interface LostEvent extends LeaseEvent {
  /** How the lease was lost. */
  readonly reason: LossReason;
}

/**
 * For a whole `claimWindow`, calls have found that a lock's key has no TTL. So no manager holds the lock: the key is another
 * library's, or other data, and never expires. The calls go on waiting, because the key's owner may delete it. The event comes once.
 * It can come again after the key was gone or had a TTL, or after no call wanted the lock.
 */
export interface BlockedEvent {
  /** The lock's name, without the manager's prefix. A call for several names has an event for each. */
  readonly name: string;
  /** For how long calls have found the key without a TTL, in milliseconds. */
  readonly waited: number;
}

/** The connection that carries the commands works again after a break. */
export interface ReconnectEvent {
  /** The server's address, such as `127.0.0.1:6379`, if the client library exposes it. */
  readonly server: string | undefined;
  /** How long there was no connection, in milliseconds. */
  readonly down: number;
}

/** The worker of `renewIn` can't renew leases, or can again. Until then, the manager works as without the option. */
export interface WorkerEvent {
  /** Whether the worker can renew leases. */
  readonly works: boolean;
  /**
   * Why it can't. `invalid-option`: the module can't be used, or its client leads to another server. `unreachable`: its client got no
   * answer, or the worker has died and is started again.
   */
  readonly error: Error | undefined;
}

/** The events of a manager, and what their listeners get. */
export interface LockManagerEvents {
  /** A call asks for a lock: `acquire`, `tryAcquire`, `adopt`, `run`, `request`, `once` or `lead`. */
  acquiring: AcquiringEvent;
  /** Such a call has the lock, or has failed. */
  acquire: AcquireEvent;
  /** A lease was released, or its release failed. */
  release: ReleaseEvent;
  /** A lease was lost. */
  lost: LostEvent;
  /** Calls wait for a lock whose key has no TTL, so no manager holds it. A quorum does not emit this. */
  blocked: BlockedEvent;
  /** A broken connection works again. Only ioredis and node-redis tell this, and not node-redis' cluster client. */
  reconnect: ReconnectEvent;
  /** The worker of the option `renewIn` has failed, or works again. Without a listener, a failure is a `LeaseholdWorkerWarning`. */
  worker: WorkerEvent;
}

type EventName = keyof LockManagerEvents;

interface Listener {
  readonly call: (event: never) => unknown;
  readonly once: boolean;
}

const NAMES = ['acquiring', 'acquire', 'release', 'lost', 'blocked', 'reconnect', 'worker'] as const satisfies readonly EventName[];
/** All managers of the process share them. Node keeps a channel only as long as somebody refers to it. */
const CHANNELS = new Map(NAMES.map((name) => [name, diagnosticsChannel(`leasehold:${name}`)]));

/** The listeners of one manager. */
export class Events {
  /** An event without listeners has no entry. A list never changes, so that a listener can remove itself. */
  readonly #listeners = new Map<EventName, readonly Listener[]>();
  /** The listeners that threw. Each one is reported once. */
  readonly #reported = new WeakSet<object>();
  #entering: readonly Entering[] = [];

  add(name: unknown, call: unknown, once: boolean): void {
    const event = readEvent(name, once ? WORK : '');
    if (typeof call !== 'function') throw new InvalidOptionError('listener', `is ${formatValue(call)}: give a function`);
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), { call: call as Listener['call'], once }]);
  }

  /** Removes the listener that was added last, if it was added several times. */
  remove(name: unknown, call: unknown): void {
    const event = readEvent(name);
    this.#remove(event, this.#listeners.get(event)?.filter((listener) => listener.call === call).pop());
  }

  /** Whether anybody listens. Ask this before you make an event. */
  has(name: EventName): boolean {
    return this.#listeners.has(name) || CHANNELS.get(name)?.hasSubscribers === true;
  }

  /** Whether the program has given the manager a listener. Subscribers of the channels may be agents that it knows nothing of. */
  hasListener(name: EventName): boolean {
    return this.#listeners.has(name);
  }

  /** Calls the listeners. It runs the user's code and never throws. */
  emit<Name extends EventName>(name: Name, event: LockManagerEvents[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      if (listener.once) this.#remove(name, listener);
      this.#call(name, listener.call, event as never);
    }
    const channel = CHANNELS.get(name);
    if (channel?.hasSubscribers === true) this.#call(name, (message) => channel.publish(message), event as never);
  }

  /** Runs the work of leases from now on. Returns a function that ends this. */
  addEntering(entering: Entering): () => void {
    this.#entering = [...this.#entering, entering];
    return () => void (this.#entering = this.#entering.filter((other) => other !== entering));
  }

  /** Runs the work of a lease. */
  enter<T>(lease: number, work: () => T): T {
    return this.#entering.reduce((inner, entering) => () => entering(lease, inner), work)();
  }

  #remove(name: EventName, listener: Listener | undefined): void {
    const others = this.#listeners.get(name)?.filter((other) => other !== listener) ?? [];
    if (others.length > 0) this.#listeners.set(name, others);
    else this.#listeners.delete(name);
  }

  #call(name: EventName, call: Listener['call'], event: never): void {
    const failed = (error: unknown): void => this.#report(name, call, error);
    try {
      const result = call(event);
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  #report(name: EventName, call: object, error: unknown): void {
    if (this.#reported.has(call)) return;
    this.#reported.add(call);
    const problem = error instanceof Error ? (error.stack ?? error.message) : formatValue(error);
    emitWarning({
      type: 'LeaseholdListenerWarning', code: 'LEASEHOLD_LISTENER_THREW',
      message: `a listener of the event \`${name}\` threw. The lock is not affected, and this listener is not reported again: ${problem}`,
    });
  }
}

/** What the events say about a lock. */
export function eventModeOf({ kind, mode }: LockSpec): EventMode {
  return kind.type === 'lock' ? mode : kind.type;
}

function readEvent(name: unknown, advice = ''): EventName {
  if (NAMES.includes(name as EventName)) return name as EventName;
  throw new InvalidOptionError('event', `is ${formatValue(name)}: give one of ${NAMES.map((known) => `'${known}'`).join(', ')}${advice}`);
}

/** `once` also does work, if it has options. */
const WORK = '; for work that is done once, give options as the third argument, such as {}';
