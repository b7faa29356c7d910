/** The lock manager: the entry point of the package. */

import { Client, type Closed, type LockManagerEvents } from '../client/index.js';
import { type Connection, type Link, recognise } from '../connections/index.js';
import { type Inspection, PLAIN } from '../engine/index.js';
import { openQuorum } from '../quorum/quorum.js';
import { type Entering, enteringSymbol } from '../support/entering.js';
import { InvalidOptionError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { asyncDispose, formatObject, type InspectArguments, inspectSymbol } from '../support/host.js';
import { Election, type ElectionOptions } from './election.js';
import type { Lease } from './lease.js';
import { type Lock, makeLock, makeMultiLock, ReadWriteLock } from './lock.js';
import {
  type CloseOptions, type ForceReleaseOptions, type LockManagerOptions, type LockOptions, type MultiOptions, type QuorumOptions, readCloseOptions, readForceReleaseOptions, readLockOptions,
  readManagerOptions, readQuorumOptions, readSemaphoreOptions, type SemaphoreOptions,
} from './options.js';
import { doOnce, type OnceCallOptions } from './once.js';
import { managerClosed, managerOpened } from './open-managers.js';
import { type Owner, ownerId } from './owner.js';
import { Stealing } from './stealing.js';
import { readName } from './validate.js';
import { type LockManagerSnapshot, request, type RequestContext, type RequestOptions } from './web-locks.js';

/** Carries a client that is already open into the manager's constructor. */
class OpenedClient {
  readonly #context: RequestContext;

  constructor(context: RequestContext) {
    this.#context = context;
  }

  /** Reads the context if `value` is an `OpenedClient`. This runs no code of `value`. */
  static read(value: unknown): RequestContext | undefined {
    return typeof value === 'object' && value !== null && #context in value ? value.#context : undefined;
  }
}

/**
 * Makes locks on one server or cluster. A process needs one manager for each server. Don't make one for each request: the process emits a
 * `LeaseholdManagersWarning` when 100 of them are open on one connection.
 *
 * It uses the connection that you have: an ioredis, node-redis or GLIDE client, or any object that can send a command. That
 * connection stays yours: the manager never closes it, and you can use it for other commands at the same time. Don't block it
 * (`BLPOP`) or change it (`SELECT`, an open `MULTI`). The first wait opens one more connection, which receives messages;
 * {@link LockManager.close} closes it.
 *
 * A waiting call keeps the process alive. A held lease, its renewal and an idle manager don't.
 *
 * @example
 * ```ts
 * import { Redis } from 'ioredis';
 * import { LockManager } from 'leasehold';
 *
 * const locks = new LockManager(new Redis());
 * await using lease = await locks.mutex('invoice:42').acquire(); // waits up to 60 s, renews itself while held
 * await db.save(invoice, { fence: lease.fence, signal: lease.signal });
 * ```
 */
export class LockManager implements AsyncDisposable {
  readonly #context: RequestContext;

  /**
   * Makes a manager. It sends nothing before the first call.
   *
   * @throws `invalid-option` (a `TypeError`) for a connection that is closed, in subscriber mode or of an unknown kind, and
   * for an option that can't be used. `error.field` names it.
   */
  constructor(connection: Connection, options?: LockManagerOptions) {
    this.#context = OpenedClient.read(connection) ?? openClient(connection, options);
  }

  /**
   * Makes a manager over an odd number of independent servers, three or more (Redlock). A lock is held while a majority of
   * them agrees. Single servers have no failover that could lose it, and a minority may be down. A majority must be
   * reachable now.
   *
   * A cluster, or a client behind Sentinel, can take the place of a server. It has one vote, and failovers of its own, which can
   * forget a lock: see the section *Members that fail over* of the page *Topologies*.
   *
   * Clients wait in a queue on the first server. So list the servers in the same order everywhere.
   *
   * A quorum has mutexes, read-write locks and several names. Semaphores, reentrant locks and conversions reject with
   * `unsupported`. `error.votes` tells how each server answered. The first call loads a second
   * WebAssembly module. A bundle or a Worker has that module only if the program has the line `import 'leasehold/quorum'`.
   *
   * @throws `invalid-option` with the field `servers` for an even number of servers or fewer than three, for a connection,
   * a server or a cluster that appears twice; `unsupported` for a server that is too old, or in a bundle or a Worker without
   * `leasehold/quorum`; `unreachable`, `auth` (all as rejections).
   *
   * @example
   * ```ts
   * const locks = await LockManager.quorum([new Redis(6379, 'a'), new Redis(6379, 'b'), new Redis(6379, 'c')]);
   * await locks.mutex('invoice:42').run((lease) => charge(invoice, lease.fence));
   * ```
   */
  static async quorum(connections: readonly Connection[], options?: QuorumOptions): Promise<LockManager> {
    const { config, settings } = readQuorumOptions(options);
    const client = await openQuorum(connections, config);
    const opened = new OpenedClient({ client, defaults: settings, stealing: new Stealing(client) });
    return new LockManager(opened as unknown as Connection);
  }

  /**
   * A lock with one holder. It is not reentrant.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * await locks.mutex('invoice:42').run((lease) => charge(invoice, lease.fence));
   * ```
   */
  mutex(name: string, options?: LockOptions): Lock {
    return makeLock(this.#context, { name, mode: 'exclusive', kind: PLAIN }, options);
  }

  /**
   * A lock that its owner can take again while it holds it, without a round trip. On the server it is Redisson's `RLock`, so
   * Java services share it: both sides exclude and wake each other.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * const owner = new Owner();
   * const lease = await locks.reentrant('account:7', owner).acquire();
   * const again = await locks.reentrant('account:7', owner).acquire(); // at once
   * await again.release(); // 'still-held'
   * await lease.release(); // 'released'
   * ```
   */
  reentrant(name: string, owner: Owner, options?: LockOptions): Lock {
    return makeLock(this.#context, { name, mode: 'exclusive', kind: { type: 'reentrant', owner: ownerId(owner) } }, options);
  }

  /**
   * A limited number of permits. Each acquire takes one or several of them, first come, first served.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * await locks.semaphore('reports', { limit: 5 }).run(() => render());
   * ```
   */
  semaphore(name: string, options: SemaphoreOptions): Lock {
    const { permits, limit, per, ...rest } = readSemaphoreOptions(options);
    return makeLock(this.#context, { name, mode: 'exclusive', kind: { type: 'semaphore', permits, limit, per } }, rest);
  }

  /**
   * Deletes the result of work that was done {@link LockManager.once}, so that the next caller does it again. Resolves to whether
   * there was a result. Work that is under way goes on, and stores its own result.
   *
   * @throws `invalid-option` for a bad name, `unsupported` on a quorum, `unreachable`: the result may be deleted; `auth`, `server`,
   * `closed` (as rejections).
   */
  async forget(name: string): Promise<boolean> {
    const { client } = this.#context;
    return client.forget(readName(name, client.prefix));
  }

  /**
   * An election: one of its candidates leads at a time, and observers learn who.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * const election = locks.election('scheduler', { value: '10.0.0.7:8080' });
   * await election.lead((term) => schedule({ fence: term.fence, signal: term.signal }));
   * ```
   */
  election(name: string, options?: ElectionOptions): Election {
    const { client, defaults } = this.#context;
    return new Election(client, readName(name, client.prefix), options, defaults);
  }

  /**
   * Several locks as one: one lease on all of them, or none. Clients that name them in different orders never deadlock. A part is a
   * name, which means its mutex, or a lock: a mutex, a reader, a writer or permits of a semaphore. Of a lock, only its name, mode and
   * permits count. Set the options on the whole.
   *
   * On one server, and in a cluster for names with one hash tag, one script takes all parts or none. If a part is full, the caller
   * waits there and holds nothing meanwhile. After four turns in which another part was full, it takes the parts in the order of
   * their names. It then holds the earlier parts while it waits for the next one. Across slots of a cluster and in a quorum, it
   * always does that. A call takes 1 to 256 names of at most 1 MiB together, prefixes included. A quorum has no semaphores.
   *
   * @throws `invalid-option`, and `unsupported` for other kinds of locks and for rates.
   *
   * @example
   * ```ts
   * await locks.multi(['account:1', 'account:2']).run(async (lease) => {
   *   for (const [account, fence] of lease.fences) await book(account, fence);
   * });
   * await locks.multi([locks.mutex('order:7'), locks.semaphore('tenant:9', { limit: 2 })]).run(() => ship());
   * ```
   */
  multi(parts: readonly (string | Lock)[], options?: MultiOptions): Lock {
    return makeMultiLock(this.#context, parts, options);
  }

  /**
   * A lock for many readers or one writer. Both wait in one queue, so neither starves the other.
   *
   * @throws `invalid-option`.
   *
   * @example
   * ```ts
   * await locks.readWrite('page:7').read().run(() => render());
   * ```
   */
  readWrite(name: string, options?: LockOptions): ReadWriteLock {
    const { client, defaults } = this.#context;
    return new ReadWriteLock(client, readName(name, client.prefix), readLockOptions(options, defaults));
  }

  /**
   * Takes a lock, runs the callback, and releases the lock when the callback's promise settles, as `navigator.locks.request`
   * does in browsers. These things differ:
   *
   * - The callback gets a {@link Lease}. Its `name` and `mode` are those of the browser's `Lock`.
   * - A lease can be lost. The request then rejects with `lost`.
   * - Requests of all processes stand in one queue: first come, first served, except for a few hand-overs inside each process.
   * - Unknown options are refused.
   *
   * @throws The callback's own error, and those of {@link Lock.run}. A `DOMException` named `AbortError` if another request
   * steals the lock or an operator takes it, and one named `NotSupportedError` for a name that begins with a hyphen and for
   * options that exclude each other. Their `cause` is an error of this package (all as rejections).
   *
   * @example
   * ```ts
   * await locks.request('page:7', { mode: 'shared' }, async (lock) => render());
   * ```
   */
  request<T>(name: string, callback: (lock: Lease) => T | PromiseLike<T>): Promise<T>;
  request<T>(name: string, options: RequestOptions & { readonly ifAvailable: true }, callback: (lock: Lease | null) => T | PromiseLike<T>): Promise<T>;
  request<T>(name: string, options: RequestOptions & { readonly ifAvailable?: false | undefined }, callback: (lock: Lease) => T | PromiseLike<T>): Promise<T>;
  request<T>(name: string, options: RequestOptions, callback: (lock: Lease | null) => T | PromiseLike<T>): Promise<T>;
  async request<T>(name: string, ...rest: unknown[]): Promise<T> {
    if (!(#context in Object(this))) throw notOnManager('request', this);
    const [options, callback] = rest.length < 2 ? [undefined, rest[0]] : rest;
    return request(this.#context, name, options, callback) as Promise<T>;
  }

  /**
   * The locks that this manager holds and waits for, as `navigator.locks.query` lists them for an origin. It waits for
   * the server's answers to earlier calls, for one `responseTimeout` at most. It doesn't see other managers:
   * {@link LockManager.inspect} asks the server.
   */
  async query(): Promise<LockManagerSnapshot> {
    if (!(#context in Object(this))) throw notOnManager('query', this);
    return this.#context.stealing.query();
  }

  /**
   * Asks the server for the holders and the waiters of the lock `name`, and for how long they have held and waited. A second round
   * trip asks for their labels. It also asks their managers for the labels of their leases, and waits for the answers for at
   * most 100 ms. A label is missing if its manager does not answer in that time. Waiters for a reentrant lock are not listed, because it has no queue on the server.
   *
   * @throws `invalid-option` for a bad name, `wrong-kind`, `unreachable`, `auth`, `closed` (as rejections).
   */
  async inspect(name: string): Promise<Inspection> {
    const { client } = this.#context;
    return client.inspect(readName(name, client.prefix));
  }

  /**
   * Takes the lock `name` from its holders, whatever its kind, and grants the next waiter. It is meant for operators. Resolves
   * to the number of holders that lost it.
   *
   * The holders are notified with `revoked`, or find out at their next renewal, with `gone` or `taken`. Until then they can
   * still write: only a fence stops them.
   *
   * A key without a TTL is another library's, or it is data that is no lock. Only a call with the option `foreign` deletes it.
   *
   * @throws As {@link LockManager.inspect}. Without `foreign`, a key without a TTL fails with `wrong-kind`. After `unreachable` it
   * is not known whether it was done. Look before you call it again, because a second call takes the lock from the next holder.
   */
  async forceRelease(name: string, options?: ForceReleaseOptions): Promise<number> {
    const { client } = this.#context;
    return client.forceRelease(readName(name, client.prefix), readForceReleaseOptions(options));
  }

  /**
   * Calls `listener` at every event of this kind: see {@link LockManagerEvents}. Events cost nothing if nobody listens. If a
   * listener throws or rejects, the lock is not affected: the process emits a `LeaseholdListenerWarning`, one for each listener.
   * The same events are messages of `node:diagnostics_channel`, in the channels `leasehold:acquire` and so on.
   *
   * @throws `invalid-option` for an unknown event, and for a listener that is no function.
   *
   * @example
   * ```ts
   * locks.on('lost', ({ name, reason, held }) => console.error(`lost ${name} after ${held} ms: ${reason}`));
   * ```
   */
  on<Event extends keyof LockManagerEvents>(event: Event, listener: (event: LockManagerEvents[Event]) => unknown): this {
    this.#context.client.events.add(event, listener, false);
    return this;
  }

  /**
   * Work that is done once: one process does it, and all others get its stored result, in every language. The server keeps the result
   * for `keep`, 24 hours by default. A caller that comes while the work is under way waits for the result.
   *
   * The result is JSON of at most 64 KiB. It is stored in the same step that gives the lock back, and only if the lease was held
   * until then. If the work fails, nothing is stored, and the next waiter does the work. The caller that did the work also gets the
   * stored result: `undefined` becomes `null`, and a `Date` becomes a string.
   *
   * It is not exactly-once: if the process crashes after a side effect and before the result is stored, or if a failover loses
   * the result, the work runs again. {@link LockManager.forget} deletes a result.
   *
   * @throws The error of `work`, as {@link Lock.run}, and the errors of {@link Lock.acquire}. `busy` if another caller does the work and
   * `wait` is 0 or over. `invalid-option` with the field `result` for a result that is too long or no JSON. `lost` if the lease ended
   * before the result was stored. `unreachable` and `server`: the result may be stored. Only the next call tells (all as
   * rejections).
   *
   * @example
   * ```ts
   * const rows = await locks.once('report:2026-11-28', (lease) => makeReport(lease.signal), { keep: '36h' });
   * ```
   */
  once<T>(name: string, work: (lease: Lease) => T | PromiseLike<T>, options: OnceCallOptions): Promise<T>;
  /** Calls `listener` at the next event of this kind only. See {@link LockManager.on}. */
  once<Event extends keyof LockManagerEvents>(event: Event, listener: (event: LockManagerEvents[Event]) => unknown): this;
  once(name: string, listener: (argument: never) => unknown, options?: OnceCallOptions): unknown {
    if (options !== undefined) return doOnce(this.#context, name, listener as (lease: Lease) => unknown, options);
    this.#context.client.events.add(name as keyof LockManagerEvents, listener as never, true);
    return this;
  }

  /** Removes a listener. A listener that was added several times is removed once. */
  off<Event extends keyof LockManagerEvents>(event: Event, listener: (event: LockManagerEvents[Event]) => unknown): this {
    this.#context.client.events.remove(event, listener);
    return this;
  }

  /** @internal */
  [enteringSymbol](entering: Entering): () => void {
    return this.#context.client.events.addEntering(entering);
  }

  /**
   * Ends the manager: waits reject with `closed`, the signals of leases abort, and then the leases are released. If there are
   * many leases, the event loop runs other tasks in between. The connection that you passed in stays open.
   *
   * It resolves when the server has confirmed all releases, or when the server has been silent for one `responseTimeout`; at
   * once if nothing is held and the server has no label of this manager. It rejects only for bad options. `unreleased` is the number of locks that
   * it could not give back: these end with their TTL. A lease of several names counts once for each name. A second call resolves with
   * the first.
   *
   * With `drain`, running work first has this time to finish: 0 ms to 30 days. New and waiting acquires reject with `closed` at
   * once. The manager renews held leases as before, and calls on them work. When the last lease is released or lost, or when the
   * time is over, the manager closes as above. `lost` is the number of leases that were still held then. Call `close()` without
   * `drain` to end the drain at once. Of several drains, the one that ends first counts.
   *
   * @throws `invalid-option` for a `drain` that is out of its bounds (as a rejection). The manager stays open.
   *
   * @example
   * ```ts
   * process.once('SIGTERM', async () => {
   *   const { lost, unreleased } = await locks.close({ drain: '25s' });
   *   if (lost > 0) console.warn(`${lost} leases were still held`);
   *   if (unreleased > 0) console.warn(`${unreleased} locks stay taken until their TTL ends`);
   * });
   * ```
   */
  async close(options?: CloseOptions): Promise<Closed> {
    const drain = readCloseOptions(options);
    managerClosed(this.#context.client);
    return this.#context.stealing.close(drain);
  }

  /** Closes the manager at the end of an `await using` block. */
  async [asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal */
  [inspectSymbol](...args: InspectArguments): string {
    const { client } = this.#context;
    const { library, prefix, isClosed } = client;
    const { held, pending } = client.query();
    const fields = { connection: library, prefix: prefix || undefined, held: held.length, pending: pending.length, closed: isClosed || undefined };
    return formatObject('LockManager', fields, args);
  }
}

function openClient(connection: Connection, options: LockManagerOptions | undefined): RequestContext {
  const { config, settings, label, renewIn, clusterSlots } = readManagerOptions(options);
  const servers = { connect: (): [Link] => [recognise(connection)], renewIn, clusterSlots };
  const client = new Client(config, servers, label);
  managerOpened(client, connection);
  // Not in batches: they would first try a short script, which lets nobody go ahead of waiters.
  const stealing = new Stealing(client, () => new Client({ ...config, batches: false, ahead: true }, servers, label, client.events));
  return { client, defaults: settings, stealing };
}

function notOnManager(method: string, value: unknown): InvalidOptionError {
  return new InvalidOptionError('this', `is ${formatValue(value)}: call \`${method}\` on a manager`);
}
