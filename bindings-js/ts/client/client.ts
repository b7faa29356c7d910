/**
 * One client: it gives the engine what users ask for, and keeps their operations and leases.
 *
 *     acquire, release, extend, ...  ->  Operation  ->  engine  ->  Outcome  ->  a result or an error
 */

import type { CallResult, Time } from '../connections/index.js';
import {
  type AcquireSettings, type Config, type Engine, type EngineLeader, type Grant, type Inspection, type LockSpec, type Mode, nameOnServer, type Outcome, type ReleaseOutcome,
} from '../engine/index.js';
import { onAbort } from '../support/abort.js';
import {
  type BusyHolder, CancelledError, ClosedError, type ErrorCode, InvalidOptionError, isLeaseholdError, type LossReason, NotHeldError, ProtocolError, UnsupportedError, type Vote,
} from '../support/errors.js';
import { formatUuid } from '../support/format.js';
import { insideRequest, randomBytes, WorkerRequest } from '../support/host.js';
import { IdMap } from '../support/id-map.js';
import { ignore } from '../support/ignore.js';
import { Once } from '../support/once.js';
import { afterPendingIo } from '../support/timers.js';
import { ClientEvents } from './client-events.js';
import { Driver, type Servers } from './driver.js';
import { refusalError, toUserError, unreachableError } from './engine-errors.js';
import { Events } from './events.js';
import { Labels } from './labels.js';
import { LeaseLabels } from './lease-labels.js';
import { LeaseState } from './lease-state.js';
import { type Attempt, fail, HandoffScheduler, type Operation, Operations, type PendingAcquire, rejection } from './operations.js';
import { OwnLocks } from './own-locks.js';
import type { VersionCheckResult } from './version.js';

/** A lock that a manager holds or waits for. */
export interface LockInfo {
  /** The lock's name, without the manager's prefix. */
  readonly name: string;
  /** Whether the lock is exclusive or shared. */
  readonly mode: Mode;
  /** The manager's id. The tokens that `inspect` shows begin with it. */
  readonly clientId: string;
}

/** The result of {@link LockManager.close}. */
export interface Closed {
  /** How many leases were still held. Their holders lost them with the reason `closed`. */
  readonly lost: number;
  /**
   * How many locks the manager could not give back, because the server did not confirm it. They end with their TTL. A lease of several
   * names counts once for each name. 0 if all were given back.
   */
  readonly unreleased: number;
}

type OutcomeOf<Kind extends Outcome['kind']> = Extract<Outcome, { kind: Kind }>;

export class Client {
  /** Put before every name. */
  readonly prefix: string;
  readonly events: Events;
  readonly #id: string;
  readonly #tell: ClientEvents;
  readonly #driver: Driver;
  readonly #handoffs = new HandoffScheduler();
  readonly #workerRequest = new WorkerRequest();
  readonly #operations = new Operations((alive) => this.#driver.ref(alive));
  /** The leases that are held, by their number in the engine. */
  readonly #leases = new IdMap<LeaseState>();
  readonly #own: OwnLocks;
  /** The names that another client of this manager takes from their holders at the moment. */
  readonly #stolen: string[] = [];
  readonly #closing = new Once<Closed>();
  #isClosing = false;
  readonly #releasing = new Once<Closed>();
  /** Set if `close()` may have failed to release the leases. Makes the error of a release. */
  #closeError: ((lockName: string) => Error) | undefined;
  #ended = false;
  /** Whether a lease may have lingered. */
  #lingers = false;
  /** What the observations of elections do with what they learn. */
  readonly #observers = new Map<number, (leader: EngineLeader | null) => void>();
  /** The number of the last acquire, for events. */
  #lastAcquire = 0;

  /** `label` makes the client's label when it is first needed. Several clients of one manager share its events. */
  constructor(config: Config, servers: Servers, label: () => string, events = new Events()) {
    this.events = events;
    // Each client draws a new id: two clients with the same id would both be granted the same lease.
    const id = insideRequest(() => randomBytes(16));
    this.#id = formatUuid(id);
    this.prefix = config.prefix;
    this.#tell = new ClientEvents(events, () => this.#driver.now);
    this.#own = new OwnLocks(this.#leases, this.#operations, config.prefix, () => {
      // The engine's clock stands still between its inputs.
      this.#driver.expire();
      return this.#driver.now;
    });
    this.#driver = new Driver(id, config, servers, {
      completed: (op, outcome) => this.#complete(op, outcome),
      lost: (lease, reason) => this.#lose(lease, reason),
      leader: (op, leader) => this.#observers.get(op)?.(leader),
      // The scheduler also has a callback of its own, but a host may lose it.
      turned: () => this.#handoffs.turned(),
      reconnected: (server, down) => this.#tell.reconnected(server, down),
      notHeld: (lease) => void this.#checkWorker(lease),
      worker: (error) => this.#tell.worker(error),
      broken: (cause) => this.#break(cause),
    }, (link) => {
      const leases = new LeaseLabels(link, this.#id, (key) => this.#own.of(key), () => this.#driver.listen(`leasehold:${this.#id}`));
      const tell = (key: string, waited: number): void => this.#tell.blocked(key.slice(this.prefix.length), waited);
      return new Labels(link, this.#id, label, config.responseTimeout, leases, { window: config.claimWindow, tell }, () => this.#own.longestHeld());
    });
  }

  get library(): string {
    return this.#driver.library;
  }

  /** The timers and the clock that its calls are measured by. */
  get time(): Time {
    return this.#driver.time;
  }

  /** Asks every server for its version and identity, before any other command. */
  checkServers(): Promise<VersionCheckResult[]> {
    return this.#driver.checkServers();
  }

  get isClosed(): boolean {
    return this.#isClosing || this.#ended;
  }

  /**
   * Takes a lock. Resolves to the handle that `open` makes for the lease. If the signal aborts during the wait, the promise
   * rejects with the signal's reason. With a `token`, it takes over the lease of this token and does not wait.
   */
  acquire<Handle>(
    lock: LockSpec,
    settings: AcquireSettings,
    signal: AbortSignal | undefined,
    open: (client: this, lease: LeaseState) => Handle,
    token?: string,
    stored?: (result: string) => Handle,
  ): Promise<Handle> {
    // Only a try resolves to `null`.
    return this.#acquire(lock, settings, signal, open, token, false, stored) as Promise<Handle>;
  }

  /** Takes a lock if it is free. Resolves to `null` if it is not. The settings have no `wait`. */
  tryAcquire<Handle>(
    lock: LockSpec, settings: AcquireSettings, signal: AbortSignal | undefined, open: (client: this, lease: LeaseState) => Handle,
  ): Promise<Handle | null> {
    return this.#acquire(lock, settings, signal, open, undefined, true);
  }

  #acquire<Handle>(
    lock: LockSpec,
    settings: AcquireSettings,
    signal: AbortSignal | undefined,
    open: (client: this, lease: LeaseState) => Handle,
    token: string | undefined,
    isTry: boolean,
    stored?: (result: string) => Handle,
  ): Promise<Handle | null> {
    const { name } = lock;
    const attempt: Attempt = { id: ++this.#lastAcquire, lock, began: undefined };
    this.#tell.acquiring(attempt);
    if (signal?.aborted === true) return Promise.reject(this.#tell.refused(attempt, 'cancelled', abortReason(signal, name)));
    const problem = settings.replicas && this.#driver.replicasProblem;
    if (problem !== undefined) return Promise.reject(this.#tell.refused(attempt, 'unsupported', new UnsupportedError(problem, { lockName: name })));
    return new Promise((resolve) => {
      const stopListening = signal && onAbort(signal, () => this.#cancel(op));
      const op = this.#begin({
        name,
        acquire: { lock, attempt, ttl: settings.ttl, label: settings.label, granted: (lease) => resolve(open(this, lease)), stopListening },
        done: (outcome) => {
          if (outcome.kind !== 'stored' || stored === undefined) return resolve(rejection(() => wrongOutcome(name)));
          stopListening?.();
          this.#tell.stored(attempt);
          resolve(stored(outcome.value));
        },
        failed: (makeError) => {
          const isNull = isTry ? (error: Error) => isLeaseholdError(error, 'busy') && error.lockName === name : undefined;
          resolve(rejection<null>(makeError, (error) => this.#tell.refused(attempt, codeOf(error), abortReasonOr(error, signal, name)), isNull));
        },
      });
      // A lease that lingers is handed over at once.
      this.#lingers ||= settings.linger !== undefined;
      this.#inputAlone(op, (engine) => {
        engine.acquire(op, lock, settings, token);
        attempt.began = engine.now;
      });
    });
  }

  /** The worker's server doesn't have a lease. If this client's server has it, the worker's client leads to another one. */
  async #checkWorker(id: number): Promise<void> {
    const lease = this.#leases.get(id);
    if (lease === undefined || !(await this.verify(lease).catch(() => false))) return;
    if (this.#leases.get(id) === lease) this.#tell.worker(new InvalidOptionError('renewIn', OTHER_SERVER));
  }

  /** The worker must know how a lease is renewed now. */
  #renewElsewhere(lease: number): void {
    const { renewer } = this.#driver;
    if (renewer !== undefined) this.#driver.defer(() => renewer.hold(lease));
  }

  /** Removes a lease that has ended. */
  #forget(lease: number): boolean {
    this.#driver.renewer?.drop(lease);
    return this.#leases.delete(lease);
  }

  /** Observes an election until the returned function is called. */
  observe(name: string, told: (leader: EngineLeader | null) => void, failed: (makeError: () => Error) => void): () => void {
    const ends = (makeError: () => Error): void => {
      this.#observers.delete(op);
      failed(makeError);
    };
    let op = 0;
    op = this.#begin({ name, done: () => ends(() => wrongOutcome(name)), failed: ends });
    if (op !== 0) this.#observers.set(op, told);
    this.#input(op, (engine) => engine.observe(op, name));
    return () => {
      if (this.#observers.delete(op)) this.#cancel(op);
    };
  }

  /** Releases one hold. */
  release(lease: LeaseState): Promise<ReleaseOutcome> {
    if (lease.detached) return Promise.resolve('detached');
    lease.holds -= 1;
    if (lease.holds === 0) this.#forget(lease.id);
    if (lease.ended?.code === 'closed') return this.#releasedByClose(lease.name);
    // The engine is gone, so only its `LeaseState` knows how the lease was lost.
    if (this.#ended) return Promise.resolve(lease.loss === 'taken' ? 'not-owner' : 'already-expired');
    const began = this.#driver.now;
    return new Promise((resolve) => {
      const failed = (makeError: () => Error): void => resolve(rejection(makeError, (cause) => {
        // The manager was closed meanwhile, and ended before the server answered.
        const error = isLeaseholdError(cause, 'closed') && this.#isClosing ? this.#unreachable(lease.name, began) : cause;
        this.#tell.released(lease, codeOf(error));
        return error;
      }));
      // Not by `#run`, because every extra promise makes a release slower.
      const done = (outcome: Outcome): void => {
        if (outcome.kind !== 'released') return failed(() => wrongOutcome(lease.name));
        this.#tell.released(lease, outcome.outcome);
        resolve(outcome.outcome);
      };
      const op = this.#begin({ name: lease.name, done, failed }, true);
      this.#inputAlone(op, (engine) => engine.release(op, lease.id));
    });
  }

  /** Gives the lease of a once back, and stores its result. Resolves to what a release resolves to. */
  async store(lease: LeaseState, result: string): Promise<ReleaseOutcome> {
    this.#forget(lease.id);
    lease.holds = 0;
    try {
      const { outcome } = await this.#run('released', lease.name, (engine, op) => engine.store(op, lease.id, result));
      this.#tell.released(lease, outcome);
      return outcome;
    } catch (error) {
      this.#tell.released(lease, codeOf(error as Error));
      throw error;
    }
  }

  /** Deletes the result of a once. */
  async forget(name: string): Promise<boolean> {
    const { found } = await this.#run('forgotten', name, (engine, op) => engine.forget(op, name));
    return found;
  }

  async extend(lease: LeaseState, ttl: number): Promise<void> {
    await this.#run('extended', lease.name, (engine, op) => engine.extend(op, lease.id, ttl));
  }

  async shorten(lease: LeaseState, ttl: number): Promise<void> {
    this.#driver.renewer?.drop(lease.id);
    await this.#run('extended', lease.name, (engine, op) => engine.shorten(op, lease.id, ttl));
  }

  /** Resolves to the token. */
  async detach(lease: LeaseState, time: number | undefined): Promise<string> {
    const detaching = this.#run('exported', lease.name, (engine, op) => engine.detach(op, lease.id, time));
    // Unless the engine has refused it, the lease has ended.
    if (lease.ended === undefined && !this.#ended && this.#driver.remaining(lease.id) === -Infinity && this.#forget(lease.id)) {
      lease.detached = true;
    }
    try {
      const { token } = await detaching;
      if (lease.detached) this.#tell.released(lease, 'detached');
      return token;
    } catch (error) {
      if (lease.detached && isLeaseholdError(error, 'lost')) {
        // The caller learns of it by the error.
        [lease.detached, lease.watched] = [false, true];
        this.#endLost(lease, error.reason);
        this.#driver.expire();
      }
      if (lease.detached) this.#tell.released(lease, codeOf(error as Error));
      throw error;
    }
  }

  async convert(lease: LeaseState, mode: Mode): Promise<void> {
    await this.#run('converted', lease.name, (engine, op) => engine.convert(op, lease.id, mode));
  }

  async verify(lease: LeaseState): Promise<boolean> {
    const outcome = await this.#run('verified', lease.name, (engine, op) => engine.verify(op, lease.id));
    return outcome.held;
  }

  /** Takes one more hold, synchronously. */
  hold(lease: LeaseState): void {
    this.#runNow('held', lease.name, (engine, op) => engine.hold(op, lease.id));
    lease.holds += 1;
  }

  /** The lease's token. Another process can adopt the lease with it. */
  tokenOf(lease: LeaseState): string {
    return this.#runNow('exported', lease.name, (engine, op) => engine.export(op, lease.id)).token;
  }

  stopRenewing(lease: LeaseState): void {
    if (this.#ended) return;
    this.#driver.renewer?.drop(lease.id);
    this.#driver.input((engine) => engine.stopRenewing(lease.id));
  }

  async inspect(name: string): Promise<Inspection> {
    const { inspection } = await this.#run('inspected', name, (engine, op) => engine.inspect(op, name));
    return this.#driver.labels?.named(this.prefix + name, inspection) ?? inspection;
  }

  async forceRelease(name: string, foreign: boolean): Promise<number> {
    const { holders } = await this.#run('revoked', name, (engine, op) => engine.forceRelease(op, name, foreign));
    return holders;
  }

  /**
   * Another client of this manager takes a lock from its holders. Asks the server about the leases here, so that they are lost at once
   * and not at their next renewal. Resolves when the server has answered.
   */
  async stolen(key: string): Promise<void> {
    const asked = new Set<LeaseState>();
    const ask = async (): Promise<void> => {
      // A lease that is released meanwhile may be handed over to the next local caller, so that one is asked about too.
      for (;;) {
        const leases = this.#leases.values().filter((lease) => lease.isOf(key, this.prefix) && !asked.has(lease));
        if (leases.length === 0) return;
        for (const lease of leases) asked.add(lease);
        await Promise.all(leases.map((lease) => this.verify(lease).catch(ignore)));
      }
    };
    this.#stolen.push(key);
    await ask();
    // The server may have granted the lock here just before, and the answer is on its way.
    await this.settled();
    await ask();
    this.#stolen.splice(this.#stolen.indexOf(key), 1);
  }

  /** Resolves when the server has answered what was asked before, or has been silent for one `responseTimeout`. */
  settled(): Promise<void> {
    return this.#driver.settled();
  }

  /** How long a lease is still valid, in microseconds. Zero or less once it has ended. */
  remaining(lease: LeaseState): number {
    return lease.ended === undefined ? this.#driver.remaining(lease.id) : 0;
  }

  /** Ends a lease whose time is over, if no timer has done so yet. */
  endIfOver(lease: LeaseState): void {
    if (lease.ended === undefined && this.#driver.remaining(lease.id) <= 0) this.#driver.expire();
  }

  /** The locks that this manager holds and waits for, each in their order, and those that linger. */
  query(): { held: LockInfo[]; pending: LockInfo[]; lingering: LockInfo[] } {
    const clientId = this.#id;
    const lingering = this.#driver.lingering().map((lock) => ({ ...lock, clientId }));
    const held = this.#leases.values().map(({ name, mode }) => ({ name, mode, clientId }));
    return { held, lingering, pending: this.#operations.waits().map((wait) => ({ ...wait, clientId })) };
  }

  /**
   * Ends waits, and resolves when the holders have given their leases back, when they have had so many milliseconds, or at a `close()`.
   * A `close()` must follow.
   */
  async drain(grace: number): Promise<void> {
    // A manager that is closed meanwhile has nothing to drain.
    await this.#run('drained', undefined, (engine, op) => engine.drain(op, grace)).catch(ignore);
  }

  /** Ends waits, releases the leases, and closes the connections that were opened here. A second call resolves with the first. */
  close(): Promise<Closed> {
    return this.#closing.run(() => this.#close());
  }

  async #close(): Promise<Closed> {
    this.#isClosing = true;
    let closed: Closed = { lost: 0, unreleased: 0 };
    if (!this.#ended) {
      [closed] = await Promise.all([this.#releaseAll(), this.#driver.labels?.close()]);
      this.#end();
    }
    await this.#driver.closeLinks();
    return closed;
  }

  /** Gives the leases back. A release of one that ends so resolves after this. */
  #releaseAll(): Promise<Closed> {
    return this.#releasing.run(() => this.#notifyAndRelease());
  }

  async #notifyAndRelease(): Promise<Closed> {
    // The engine reports the leases that have expired before, with their own reason.
    this.#driver.expire();
    const count = this.#leases.size;
    // Listeners may be slow, and there may be many. So the event loop runs in between, and the response timeout begins after the last
    // listener.
    while (!this.#notifyOfClose()) {
      this.#endWaits();
      await new Promise<void>(afterPendingIo);
    }
    const began = this.#driver.now;
    this.#closeError = (lockName) => this.#unreachable(lockName, began);
    // This fails only if the engine is broken. Then the server has confirmed no release.
    const closed = await this.#run('closed', undefined, (engine, op) => engine.close(op)).catch(() => ({ lost: count, unreleased: count }));
    if (this.#driver.isQuorum && isMajority(this.#driver.votesSince(began))) this.#closeError = undefined;
    return { lost: closed.lost, unreleased: closed.unreleased };
  }

  /** Notifies the holders before their leases are released. Returns false if some are left. */
  #notifyOfClose(): boolean {
    const began = this.time.now();
    for (const lease of this.#leases.values()) {
      if (this.time.now() - began > LONGEST_SLICE) return false;
      // A listener of another lease may have released it.
      if (!this.#forget(lease.id)) continue;
      lease.markClosed();
      lease.notify();
      this.#tell.released(lease, 'closed');
    }
    return true;
  }

  /** Ends the waits before the engine is closed. */
  #endWaits(): void {
    for (const op of this.#operations.waiting()) {
      const operation = this.#operations.end(op);
      if (operation !== undefined) fail(operation, () => new ClosedError({ lockName: operation.name }));
      this.#driver.input((engine) => engine.cancel(op));
    }
  }

  /** Called when the engine has closed: with the last command's result, or with none if the engine has stopped waiting for the server. */
  #engineClosed(result: CallResult | undefined): void {
    // In a quorum, the last result says nothing about the other servers.
    if (result === undefined || this.#driver.isQuorum) return;
    if ('reply' in result) {
      this.#closeError = undefined;
    } else if (result.failure.kind === 'refused') {
      const { failure: { text }, cause } = result;
      // A key of another type belongs to another client by now, so there is nothing left to release.
      this.#closeError = text.includes('WRONGTYPE') ? undefined : (lockName) => refusalError(text, lockName, cause);
    }
  }

  async #releasedByClose(lockName: string): Promise<ReleaseOutcome> {
    await this.#releaseAll();
    if (this.#closeError === undefined) return 'released';
    throw this.#closeError(lockName);
  }

  /** The error of an operation that began at `began` and got no answer. */
  #unreachable(lockName: string, began: number): Error {
    const waited = Math.trunc((this.#driver.now - began) / 1_000);
    const votes = this.#driver.isQuorum ? this.#driver.votesSince(began) : undefined;
    return unreachableError(undefined, this.#driver.connection, { lockName, waited, votes });
  }

  /** Runs an operation that ends with this kind of outcome. */
  #run<Kind extends Outcome['kind']>(
    kind: Kind,
    name: string | undefined,
    input: (engine: Engine, op: number) => void,
  ): Promise<OutcomeOf<Kind>> {
    return new Promise((resolve) => {
      const isExpected = (outcome: Outcome): outcome is OutcomeOf<Kind> => outcome.kind === kind;
      const failed = (makeError: () => Error): void => resolve(rejection(makeError));
      const done = (outcome: Outcome): void => (isExpected(outcome) ? resolve(outcome) : failed(() => wrongOutcome(name)));
      const op = this.#begin({ name, done, failed }, kind === 'released' || kind === 'closed');
      this.#input(op, (engine) => input(engine, op));
    });
  }

  /** Runs an operation that ends at once. */
  #runNow<Kind extends Outcome['kind']>(kind: Kind, name: string, input: (engine: Engine, op: number) => void): OutcomeOf<Kind> {
    let ended: Outcome | undefined;
    let error: unknown = new NotHeldError(name);
    const op = this.#begin({ name, done: (outcome) => (ended = outcome), failed: (makeError) => (error = makeError()) });
    this.#input(op, (engine) => input(engine, op));
    if (ended?.kind !== kind) throw error;
    return ended as OutcomeOf<Kind>;
  }

  /** Registers an operation and returns its number, or 0 if it has already failed. A closing manager accepts only releases. */
  #begin(operation: Operation, isRelease = false): number {
    const { name: lockName } = operation;
    const problem = this.#workerRequest.problem();
    if (!this.#ended && (isRelease || !this.#isClosing) && problem === undefined) return this.#operations.begin(operation);
    fail(operation, () => (problem === undefined ? new ClosedError({ lockName }) : new UnsupportedError(problem, { lockName })));
    return 0;
  }

  #input(op: number, input: (engine: Engine) => void): void {
    if (op !== 0) this.#driver.input(input);
  }

  /** An input that needs no result at once, if the client has nothing else to do. */
  #inputAlone(op: number, input: (engine: Engine) => void): void {
    if (this.#lingers || !this.#operations.isOne) this.#input(op, input);
    else if (op !== 0) this.#driver.inputAlone(input);
  }

  #cancel(op: number): void {
    if (this.#operations.has(op)) this.#driver.input((engine) => engine.cancel(op));
  }

  #complete(op: number, outcome: Outcome): void {
    const operation = this.#operations.end(op);
    if (operation === undefined) return;
    if (outcome.kind === 'failed') {
      const connection = this.#driver.connectionOf(op);
      const { code, text } = outcome.error;
      const kind = operation.acquire?.lock.kind;
      const isRate = kind?.type === 'semaphore' && kind.per !== undefined;
      const holder = code === 'busy' && !isRate ? this.#holderOf(text === '' ? (operation.name ?? '') : text) : undefined;
      return fail(operation, () => toUserError(outcome.error, operation.name, connection, { holder, isRate }));
    }
    if (outcome.kind === 'closed') this.#engineClosed(this.#driver.result);
    if (outcome.kind === 'converted') {
      this.#leases.get(outcome.grant.lease)?.convert(outcome.grant);
      this.#renewElsewhere(outcome.grant.lease);
    }
    const grant = grantOf(outcome);
    const { acquire } = operation;
    if (grant === undefined || acquire === undefined) return operation.done(outcome);

    acquire.stopListening?.();
    this.#driver.labels?.granted(this.prefix + nameOnServer(acquire.lock));
    const lease = this.#leaseOf(grant, outcome, acquire);
    this.#tell.granted(acquire.attempt, lease, grant.local);
    if (grant.local && !this.#driver.isInMemory) this.#handoffs.run(this.#driver.now, () => acquire.granted(lease));
    else acquire.granted(lease);
  }

  /** Who holds a lock that a caller did not get: another client, or a caller of this one. */
  #holderOf(name: string): BusyHolder | undefined {
    const { labels } = this.#driver;
    const other = labels?.holderOf(this.prefix + name);
    if (other !== undefined || labels === undefined) return other;
    const lease = this.#own.leaseOf(name);
    return lease && { ...labels.own(), held: Math.round((this.#driver.now - lease.since) / 1_000) };
  }

  #leaseOf(grant: Grant, outcome: Outcome, { lock, ttl, label }: PendingAcquire): LeaseState {
    const known = this.#leases.get(grant.lease);
    if (known !== undefined) {
      // The owner of a reentrant lock gets another handle to the lease that it has.
      known.holds += 1;
      return known;
    }
    const { kind } = lock;
    const per = kind.type === 'semaphore' ? kind.per : undefined;
    const lease = new LeaseState(grant, lock, per ?? ttl, this.#driver.now, label);
    if (per !== undefined) {
      // The server keeps the permits of a rate for their time, so nothing is held here.
      lease.detached = true;
      return lease;
    }
    this.#renewElsewhere(grant.lease);
    if (outcome.kind === 'acquired-all' && lock.kind.type === 'multi') lease.setFences(lock.kind.parts.map(({ name }) => name), outcome.fences);
    this.#leases.set(lease.id, lease);
    return lease;
  }

  #lose(id: number, reason: LossReason): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    this.#forget(id);
    const isTheft = (reason === 'gone' || reason === 'taken') && this.#stolen.some((key) => lease.isOf(key, this.prefix));
    this.#endLost(lease, isTheft ? 'revoked' : reason);
  }

  #endLost(lease: LeaseState, reason: LossReason): void {
    lease.markLost(reason);
    this.#driver.defer(() => {
      // Before `notify`, so that a listener is called before those who await `lost`.
      this.#tell.lost(lease, reason);
      lease.notify();
    });
  }

  /** The engine is broken: fail all open operations and count all leases as lost. */
  #break(cause: unknown): void {
    this.#end(cause);
    for (const lease of this.#leases.values()) this.#endLost(lease, 'expired');
    this.#leases.clear();
    this.#driver.defer(() => void this.#driver.closeLinks());
  }

  #end(cause?: unknown): void {
    // The engine may break while the manager closes.
    if (this.#ended) return;
    this.#ended = true;
    this.#driver.stop(cause === undefined ? 'closed' : 'broken');
    for (const operation of this.#operations.endAll()) fail(operation, () => new ClosedError({ lockName: operation.name, cause }));
  }
}

const OTHER_SERVER = "names a module whose client leads to another server or database than the manager's connection: give both the same address";

/** How long a manager that closes runs listeners before the event loop turns, in milliseconds. */
const LONGEST_SLICE = 10;

function codeOf(error: Error): ErrorCode {
  return isLeaseholdError(error) ? error.code : 'protocol';
}

/** The grant in an outcome, if it has one. The fence of a lease on several names is the greatest of theirs. */
function grantOf(outcome: Outcome): Grant | undefined {
  if (outcome.kind === 'acquired') return outcome.grant;
  if (outcome.kind !== 'acquired-all') return undefined;
  const { lease, fences, validUntil } = outcome;
  return { lease, mode: 'exclusive', fence: Math.max(...fences), validUntil, local: false };
}

function isMajority(votes: readonly Vote[]): boolean {
  return votes.filter(({ answer }) => answer === 'agreed').length * 2 > votes.length;
}

function abortReason(signal: AbortSignal, name: string): unknown {
  // `null` is a reason too. Only a wrapper of a signal may have none.
  return signal.reason === undefined ? new CancelledError(name) : signal.reason;
}

/** The signal's reason if the signal ended the wait, else `error`. */
function abortReasonOr(error: unknown, signal: AbortSignal | undefined, name: string): unknown {
  return signal?.aborted === true && error instanceof CancelledError ? abortReason(signal, name) : error;
}

/** The engine returned the wrong kind of outcome: a bug in this package. */
function wrongOutcome(name: string | undefined): ProtocolError {
  return new ProtocolError('the engine returned the wrong kind of outcome; please report this as a bug', { lockName: name });
}
