/** What a holder holds. */

import { asyncDispose } from './dispose.js';
import type { Driver } from './driver.js';
import { type Duration, milliseconds } from './duration.js';
import type { Mode, ReleaseOutcome } from './engine.js';
import { CancelledError, type LossReason, NotHeldError } from './errors.js';
import type { Held } from './held.js';
import { type Inspect, inspectCustom, inspected } from './inspect.js';
import type { Replicas } from './replicas.js';
import { onAbort } from './signals.js';

/**
 * A lock that is held, for a time: renewed while it is held, told when it is lost, released when you say so.
 *
 * Give it back with {@link Lease.release}, with `await using`, or hold it inside `run`. A lease that you forget goes on
 * being renewed for as long as the process lives (unless it has `maxHold`): it is never released behind your back, since
 * you may still rely on its `signal`.
 *
 * @example
 * ```ts
 * await using lease = await locks.mutex('invoice:42').acquire();
 * await db.save(invoice, { fence: lease.fence, signal: lease.signal });
 * ```
 */
export class Lease implements AsyncDisposable {
  readonly #driver: Driver;
  readonly #held: Held;
  #released: Promise<ReleaseOutcome> | undefined;

  /** @internal */
  constructor(driver: Driver, held: Held) {
    this.#driver = driver;
    this.#held = held;
  }

  /** The lock's name, without the manager's prefix. */
  get name(): string {
    return this.#held.name;
  }

  /**
   * The fencing token: greater than that of every lease that excluded this one before. Send it along with every write,
   * and let the resource refuse a smaller one than it has seen. A conversion gives a new one. Below 2^53.
   */
  get fence(): number {
    return this.#held.fence;
  }

  /**
   * The fencing token of each name: of several names that are held as one, each has its own, and a resource that one of
   * them stands for gets that one. `fence` is the greatest of them.
   */
  get fences(): ReadonlyMap<string, number> {
    return this.#held.fences;
  }

  /** Whether it is held exclusively or shared. */
  get mode(): Mode {
    return this.#held.mode;
  }

  /** What the server keeps if nobody renews, in milliseconds, as it was asked for. */
  get ttl(): number {
    return this.#held.ttl;
  }

  /** How long the lease is still valid by the local clock if no renewal comes any more, in milliseconds; 0 once it is over. */
  get remaining(): number {
    if (this.#released !== undefined) return 0;
    return Math.max(0, this.#driver.remaining(this.#held) / 1_000);
  }

  /** Whether the lease is still valid by the local clock. No I/O. */
  get isHeld(): boolean {
    return this.remaining > 0;
  }

  /**
   * Aborts when the lease is lost, with a `LostError` as its reason, or when its manager is closed, with a `ClosedError`.
   * It never aborts because you released the lease. Pass it to whatever takes one: `fetch`, queries, timers. A lease whose `signal` and
   * `lost` nobody has read is warned of when it is lost, as a `LeaseLostWarning` of the process.
   */
  get signal(): AbortSignal {
    this.#held.watched = true;
    return this.#held.signal;
  }

  /**
   * Resolves when the lease is lost, with the reason; at once if it was lost before. It never rejects, and it never
   * settles if the lease is given back first.
   */
  get lost(): Promise<LossReason> {
    this.#held.watched = true;
    return this.#held.lost;
  }

  /** How many holds there are on this lease: 1, and one more for each `nested()`, and each further acquire of a reentrant lock by its owner, that was not released. */
  get holdCount(): number {
    return this.#held.holds;
  }

  /**
   * Takes one more hold on this lease, counted here and without I/O: the lease is given back with the last of its holds.
   *
   * @throws `not-held` if the lease was lost or released, `closed`.
   */
  nested(): Lease {
    this.#check();
    this.#driver.hold(this.#held);
    return another(this.#driver, this.#held);
  }

  /**
   * Makes the lease valid for at least `ttl` from now, but not past its `maxHold`: 10 ms to 24 h. It never gets shorter.
   *
   * @throws `invalid-option`, `not-held`, `lost`, `unreachable`, `closed` (as rejections).
   */
  async extend(ttl: Duration): Promise<void> {
    const wanted = milliseconds('ttl', ttl);
    this.#check();
    await this.#driver.extend(this.#held, wanted);
  }

  /**
   * Asks the server whether the lease is still there. If not, it is lost from now on.
   *
   * @throws `unreachable`, `auth`, `closed` (as rejections).
   */
  async verify(): Promise<boolean> {
    if (this.#released !== undefined || this.#held.loss !== undefined) return false;
    try {
      return await this.#driver.verify(this.#held);
    } catch (error) {
      if (this.#held.loss !== undefined || error instanceof NotHeldError) return false;
      throw error;
    }
  }

  /**
   * Turns an exclusive lease into a shared one, without letting a writer in between; waiting readers may join.
   *
   * @throws `unsupported` for any kind but a read-write lock or a mutex, `not-held`, `lost`, `conflict`, `unreachable`, `closed` (as rejections).
   */
  async downgrade(): Promise<void> {
    this.#check();
    await this.#driver.convert(this.#held, 'shared');
  }

  /**
   * Turns the lease of a sole reader into an exclusive one.
   *
   * @throws `conflict` at once if there is another reader (it never waits: two upgrades would wait for each other);
   * `unsupported` for any kind but a read-write lock or a mutex, `not-held`, `lost`, `unreachable`, `closed` (as rejections).
   */
  async upgrade(): Promise<void> {
    this.#check();
    await this.#driver.convert(this.#held, 'exclusive');
  }

  /**
   * Gives this hold back and tells what became of it. A lease that had ended before is no error, and a second call
   * answers what the first did. `released` is also the answer for a lease that its manager's `close()` gave back.
   *
   * @throws `unreachable` if the server could not be told in time: the lease then ends by its TTL. `auth`, `server`
   * (as rejections).
   */
  release(): Promise<ReleaseOutcome> {
    this.#released ??= this.#driver.release(this.#held);
    return this.#released;
  }

  /**
   * Ends once enough replicas have the lease. Else it is given back, also when it is lost or the caller gives up.
   *
   * @internal
   */
  async confirmed(replicas: Replicas, signal: AbortSignal | undefined): Promise<this> {
    const unwanted = new AbortController();
    // A loss until then is this call's rejection.
    const { watched } = this.#held;
    this.#held.watched = true;
    const stops = [this.#held.signal, signal].map((one) => one && follow(unwanted, one, this.name));
    try {
      await this.#driver.confirm(this.#held, replicas, unwanted.signal);
      this.#held.watched = watched;
      return this;
    } catch (error) {
      await this.release().catch(ignore);
      throw error;
    } finally {
      for (const stop of stops) stop?.();
    }
  }

  /** @internal */
  get [Symbol.toStringTag](): string {
    return 'Lease';
  }

  /** @internal */
  [inspectCustom](depth: number, options: object, inspect: Inspect): string {
    return inspected('Lease', this.toJSON(), depth, options, inspect);
  }

  /** What a log needs. */
  toJSON(): object {
    const { name, mode, fence, isHeld, holdCount } = this;
    if (!isHeld) return { name, mode, fence, isHeld, ended: this.#ending() };
    return { name, mode, fence, isHeld, remaining: Math.trunc(this.remaining), holdCount: holdCount > 1 ? holdCount : undefined };
  }

  #ending(): string {
    const { ended, loss } = this.#held;
    if (loss !== undefined) return `lost: ${loss}`;
    if (ended !== undefined) return ended.code;
    return this.#released === undefined ? 'lost: expired' : 'released';
  }

  /** Releases at the end of the block. A failure to tell the server is no failure of the block: the lease ends by its TTL. */
  async [asyncDispose](): Promise<void> {
    await this.release().catch(ignore);
  }

  #check(): void {
    if (this.#released !== undefined) throw new NotHeldError(this.name);
  }
}

/** Aborts the one with the reason of the other. */
function follow(controller: AbortController, signal: AbortSignal, name: string): () => void {
  const abort = (): void => controller.abort(signal.reason ?? new CancelledError(name));
  if (signal.aborted) abort();
  return onAbort(signal, abort);
}

function ignore(): undefined {}

/** Outside, since a class that names itself is given another name by the bundler. */
function another(driver: Driver, held: Held): Lease {
  return new Lease(driver, held);
}
