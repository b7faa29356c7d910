/** A lease: a lock that is held. */

import type { Client, LeaseState } from '../client/index.js';
import type { Mode, ReleaseOutcome } from '../engine/index.js';
import { type LossReason, NotHeldError } from '../support/errors.js';
import { asyncDispose, formatObject, type InspectArguments, inspectSymbol } from '../support/host.js';
import { ignore } from '../support/ignore.js';
import { Once } from '../support/once.js';
import { type DetachOptions, readDetachOptions } from './options.js';
import { type Duration, readDuration } from './validate.js';

/** The state of a handle's lease. */
export let stateOf: (lease: Lease) => LeaseState;

/**
 * A lock that you hold for a limited time. The client renews it while you hold it, and notifies you if it is lost.
 *
 * Give it back with {@link Lease.release} or `await using`, or use `run`. A lease that you forget is renewed for as long as
 * the process lives, unless it has a `maxHold`. It is not released when it is garbage-collected, because you may still rely
 * on its `signal`.
 *
 * @example
 * ```ts
 * await using lease = await locks.mutex('invoice:42').acquire();
 * await db.save(invoice, { fence: lease.fence, signal: lease.signal });
 * ```
 */
export class Lease implements AsyncDisposable {
  static {
    stateOf = (lease) => lease.#state;
  }

  readonly #client: Client;
  readonly #state: LeaseState;
  /** Set once the release of this hold has begun. */
  #released: Once<ReleaseOutcome> | undefined;

  /** @internal */
  constructor(client: Client, state: LeaseState) {
    this.#client = client;
    this.#state = state;
  }

  /** The lock's name, without the manager's prefix. */
  get name(): string {
    return this.#state.name;
  }

  /**
   * The fencing token, an integer below 2^53. It is greater than the fence of every lease that excluded this one before. Send
   * it along with every write, and let the resource refuse a fence that is smaller than one it has seen. `upgrade` and
   * `downgrade` change it.
   */
  get fence(): number {
    return this.#state.fence;
  }

  /**
   * The fencing token of each name. A lease on several names has one for each: send the resource of a name the fence of that
   * name. `fence` is the greatest of them.
   */
  get fences(): ReadonlyMap<string, number> {
    return this.#state.fences;
  }

  /** Whether the lock is held exclusively or shared. */
  get mode(): Mode {
    return this.#state.mode;
  }

  /** The option `ttl` of the acquire, in milliseconds: how long the server keeps the lease unless it is renewed. */
  get ttl(): number {
    return this.#state.ttl;
  }

  /** How long the lease stays valid without another renewal, by the local clock, in milliseconds. 0 once it is over. */
  get remaining(): number {
    if (this.#released !== undefined) return 0;
    return Math.max(0, this.#client.remaining(this.#state) / 1_000);
  }

  /** Whether the lease is still valid by the local clock. It does no I/O. */
  get isHeld(): boolean {
    return this.remaining > 0;
  }

  /**
   * Aborts when the lease is lost, with a `LostError` as its reason, or when the manager is closed, with a `ClosedError`. It
   * does not abort when you release the lease. Pass it to everything that takes a signal: `fetch`, queries, timers.
   *
   * A timer aborts it, so a blocked event loop delays that. Reading this property checks the clock first: if the lease has
   * expired, the signal that you get is aborted already.
   *
   * If a lease is lost, neither its `signal` nor its `lost` was read, and its manager has no listener for the event `lost`, the
   * process emits a `LeaseLostWarning`.
   */
  get signal(): AbortSignal {
    this.#watch();
    return this.#state.signal;
  }

  /**
   * Resolves with the reason when the lease is lost; at once if it is already lost. It never rejects, and it never settles if
   * the lease is released first. If the manager is closed, it resolves with `closed` before the lock is released.
   */
  get lost(): Promise<LossReason> {
    this.#watch();
    return this.#state.lost;
  }

  /**
   * How many holds this lease has that are not released yet: the first one, one for each `nested()`, and one for each further
   * acquire of a reentrant lock by its owner.
   */
  get holdCount(): number {
    return this.#state.holds;
  }

  /**
   * Takes one more hold on this lease, without I/O. The lock is free when the last hold is released. Use it to pass a lease to
   * a helper that also wants to release it.
   *
   * @throws `not-held` if the lease was lost or released, `closed`.
   */
  nested(): Lease {
    this.#assertNotReleased();
    this.#client.hold(this.#state);
    return openLease(this.#client, this.#state);
  }

  /**
   * Makes the lease valid for at least `ttl` from now, but not past its `maxHold`. It never makes the lease shorter:
   * see {@link shorten}. 10 ms to 30 days.
   *
   * @throws `invalid-option`, `not-held`, `lost`, `unreachable`, `closed` (as rejections).
   */
  async extend(ttl: Duration): Promise<void> {
    const millis = readDuration('ttl', ttl);
    this.#assertNotReleased();
    await this.#client.extend(this.#state, millis);
  }

  /**
   * Makes the lease end `ttl` from now, here and on the server, and stops the renewals. The lock is then free in time, even if
   * this process ends before. {@link extend} can make the lease longer again. 10 ms to 30 days.
   *
   * The lock is free earlier if you release the lease or close the manager. The end of `run` releases the lease.
   *
   * If the call fails, the lease still ends here in time, but the server may keep it for as long as before.
   *
   * @throws `invalid-option`, `not-held`, `lost`, `unreachable`, `closed` (as rejections). `conflict` while other callers of this
   * manager hold the same lease, as readers do. `unsupported` for reentrant locks, semaphores, several names and quorums.
   */
  async shorten(ttl: Duration): Promise<void> {
    const millis = readDuration('ttl', ttl);
    this.#assertNotReleased();
    await this.#client.shorten(this.#state, millis);
  }

  /**
   * Ends this manager's interest in the lease without freeing the lock. Resolves to the lease's token: another process, or this
   * one, can {@link Lock.adopt} the lease with it later, also after this manager has closed.
   *
   * The server keeps the lock for the time `for` from now (10 ms to 30 days), but not past the `maxHold`. Without `for`, it keeps
   * the lock for one more `ttl`, or until the end of a fixed lease. No process renews it. This lease has ended: `isHeld` is false,
   * and `release` answers `detached`. If `run` or an `await using` block ends or if you close the manager, the lock stays taken.
   *
   * Every process that has the token can take the lease. Treat it as a secret.
   *
   * @throws (all as rejections) `conflict` while other callers of this manager hold the same lease, as readers do, while it has
   * `nested` holds, and during a conversion; `unsupported` for reentrant locks, several names and quorums; `invalid-option`. With
   * these, you still hold the lease. `lost`, `not-held`. `unreachable` if the server did not answer in time: the lease has ended
   * here, and no process has a token. The manager repeats the request until the lease would have expired. The lock stays taken
   * until then, or for the detached time. `auth`, `server`, `closed`: as `unreachable`, but the manager doesn't repeat the request.
   *
   * @example
   * ```ts
   * // The process that accepts the job
   * const lease = await locks.mutex('invoice:42').acquire();
   * await queue.send({ invoice: 42, token: await lease.detach({ for: '10m' }) });
   *
   * // The process that does the job, at some time in the next ten minutes
   * await using adopted = await locks.mutex('invoice:42').adopt(message.token);
   * ```
   */
  async detach(options?: DetachOptions): Promise<string> {
    const time = readDetachOptions(options);
    this.#assertNotReleased();
    return await this.#client.detach(this.#state, time);
  }

  /**
   * Stops the renewals. The lease ends one TTL after its last renewal, and is then lost with `expired`. `extend` moves that
   * end. A lease that is not renewed stays as it is. The call returns at once.
   *
   * If the lease came after a wait, the client renews it once more, because the server grants a waiter only the `claimWindow`.
   */
  stopRenewing(): void {
    if (this.#released === undefined) this.#client.stopRenewing(this.#state);
  }

  /**
   * The lease's token. Another process can take the lease over with it: see {@link Lock.adopt}. It does no I/O.
   *
   * Keep this lease until the other process has adopted it. If you release it or close the manager, the lock is free, and the
   * token no longer works. To end earlier, {@link detach} the lease instead. After the adoption, this lease is lost, usually with
   * `revoked`: see {@link lost}. A conversion and {@link shorten} give the lease a new token.
   *
   * From now on, this manager doesn't hand the lease over to its other callers, and the lease doesn't linger. No warning is
   * emitted when it is lost.
   *
   * Every process that has the token can take the lease. Treat it as a secret.
   *
   * @throws `unsupported` for reentrant locks, several names and quorums. `not-held`, `closed`; `conflict` during a conversion,
   * and while other callers of this manager hold the same lease, as readers do.
   */
  token(): string {
    this.#assertNotReleased();
    const token = this.#client.tokenOf(this.#state);
    // The holder gives the lease away, so its loss needs no warning.
    this.#state.watched = true;
    return token;
  }

  /**
   * Asks the server whether the lease is still there. If it resolves to `false`, the lease is lost or was released.
   *
   * @throws `unreachable`, `auth`, `closed` (as rejections).
   */
  async verify(): Promise<boolean> {
    if (this.#released !== undefined || this.#state.loss !== undefined) return false;
    try {
      return await this.#client.verify(this.#state);
    } catch (error) {
      if (this.#state.loss !== undefined || error instanceof NotHeldError) return false;
      throw error;
    }
  }

  /**
   * Turns an exclusive lease into a shared one. No writer can get in between. Waiting readers may join. It draws a new fence.
   *
   * @throws `unsupported` for any kind except the read-write lock and the mutex, `not-held`, `lost`, `conflict`,
   * `unreachable`, `closed` (as rejections).
   */
  async downgrade(): Promise<void> {
    this.#assertNotReleased();
    await this.#client.convert(this.#state, 'shared');
  }

  /**
   * Turns the lease of the only reader into an exclusive one. It draws a new fence.
   *
   * @throws `conflict` at once if there is another reader: it never waits, because two upgrades would wait for each other.
   * `unsupported` for any kind except the read-write lock and the mutex, `not-held`, `lost`, `unreachable`, `closed` (as
   * rejections).
   */
  async upgrade(): Promise<void> {
    this.#assertNotReleased();
    await this.#client.convert(this.#state, 'exclusive');
  }

  /**
   * Gives this hold back and resolves to what happened. Releasing a lease that has already ended is not an error. A second call
   * resolves to the same answer. A lease that the manager's `close()` gave back answers `released`.
   *
   * @throws `unreachable` if the server does not answer in time: the lease then ends with its TTL. `auth`, `server` (as
   * rejections).
   */
  release(): Promise<ReleaseOutcome> {
    this.#released ??= new Once();
    return this.#released.run(() => this.#client.release(this.#state));
  }

  /** @internal */
  get [Symbol.toStringTag](): string {
    return 'Lease';
  }

  /** @internal */
  [inspectSymbol](...args: InspectArguments): string {
    return formatObject('Lease', this.toJSON(), args);
  }

  /** The lease's state, for logs. */
  toJSON(): object {
    const { name, mode, fence, isHeld, holdCount } = this;
    if (!isHeld) return { name, mode, fence, isHeld, ended: this.#ending() };
    return { name, mode, fence, isHeld, remaining: Math.trunc(this.remaining), holdCount: holdCount > 1 ? holdCount : undefined };
  }

  #ending(): string {
    const { ended, loss } = this.#state;
    if (loss !== undefined) return `lost: ${loss}`;
    if (ended !== undefined) return ended.code;
    if (this.#state.detached) return 'detached';
    return this.#released === undefined ? 'lost: expired' : 'released';
  }

  /**
   * Releases the lease at the end of an `await using` block. It never rejects: if the release fails, the lease ends with its
   * TTL.
   */
  async [asyncDispose](): Promise<void> {
    await this.release().catch(ignore);
  }

  /** Records that the holder watches for a loss. If the lease has expired, reports that now, not only when a timer fires. */
  #watch(): void {
    this.#state.watched = true;
    if (this.#released === undefined) this.#client.endIfOver(this.#state);
  }

  #assertNotReleased(): void {
    if (this.#released !== undefined) throw new NotHeldError(this.name);
  }
}

/** Makes a handle. This is outside of the class, because the bundler renames a class that refers to itself. */
export function openLease(client: Client, state: LeaseState): Lease {
  return new Lease(client, state);
}
