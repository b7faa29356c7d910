/** Connects locks and leases to the engine: turns their calls into inputs, and outcomes into results. */

import type { CallResult } from '../connections/index.js';
import type { AcquireSettings, Config, Engine, Grant, Inspection, LockKind, Mode, Outcome, ReleaseOutcome } from '../engine/index.js';
import { onAbort } from '../support/abort.js';
import {
  CancelledError, ClosedError, isLeaseholdError, type LossReason, LostError, NotHeldError, NotReplicatedError, ProtocolError,
  UnsupportedError, type Vote,
} from '../support/errors.js';
import { insideRequest, randomBytes, WorkerRequest } from '../support/host.js';
import { Driver, type Servers } from './driver.js';
import { failureError, refusalError, toUserError, unreachableError } from './engine-errors.js';
import { LeaseState } from './lease-state.js';
import { type Call, fail, HandoffScheduler, Operations, rejection } from './operations.js';
import type { ReplicaSettings } from './replicas.js';
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

/** The grant in an outcome, if it has one. The fence of a lease on several names is the greatest of theirs. */
function grantOf(outcome: Outcome): Grant | undefined {
  if (outcome.kind === 'acquired') return outcome.grant;
  if (outcome.kind !== 'acquired-all') return undefined;
  const { lease, fences, validUntil } = outcome;
  return { lease, mode: 'exclusive', fence: Math.max(...fences), validUntil, local: false };
}

/** The result of {@link LockManager.close}. */
export interface Closed {
  /**
   * How many leases the manager could not give back, because the server did not confirm it. They end with their TTL. 0 if all
   * were given back.
   */
  readonly unreleased: number;
}

type OutcomeOf<Kind extends Outcome['kind']> = Extract<Outcome, { kind: Kind }>;

export class Client {
  /** Put before every name. */
  readonly prefix: string;
  readonly #id: string;
  readonly #driver: Driver;
  readonly #turns = new HandoffScheduler();
  readonly #workerRequest = new WorkerRequest();
  readonly #calls = new Operations((alive) => this.#driver.keepAlive(alive));
  readonly #held = new Map<number, LeaseState>();
  #closing: Promise<Closed> | undefined;
  #givenBack: Promise<Closed> | undefined;
  /** Set if `close()` may have failed to give the leases back: makes the error of a release. */
  #untold: ((lockName: string) => Error) | undefined;
  #ended = false;

  constructor(config: Config, servers: Servers) {
    // A new id for each client: two clients with the same id would both be granted the same lease.
    const id = insideRequest(() => randomBytes(16));
    this.#id = uuidOf(id);
    this.prefix = config.prefix;
    this.#driver = new Driver(id, config, servers, {
      completed: (op, outcome) => this.#complete(op, outcome),
      lost: (lease, reason) => this.#lose(lease, reason),
      broken: (cause) => this.#break(cause),
    });
  }

  get library(): string {
    return this.#driver.library;
  }

  /** Asks every server for its version and identity, before any other command. */
  meet(): Promise<VersionCheckResult[]> {
    return this.#driver.meet();
  }

  get isClosed(): boolean {
    return this.#closing !== undefined || this.#ended;
  }

  /**
   * Takes the lock `name`, and resolves to what `open` makes of the new lease. If the signal aborts during the wait, the promise
   * rejects with the signal's reason.
   */
  acquire<Handle>(name: string, kind: LockKind, wish: AcquireSettings, signal: AbortSignal | undefined, open: (driver: this, held: LeaseState) => Handle): Promise<Handle> {
    if (signal?.aborted === true) return Promise.reject(reasonOf(signal, name));
    return new Promise((resolve) => {
      const stopListening = signal && onAbort(signal, () => this.#cancel(op));
      const op = this.#begin({
        name,
        acquire: { mode: kind.mode, names: kind.names, ttl: wish.ttl, granted: (held) => resolve(open(this, held)), stopListening },
        done: () => resolve(rejection(() => unexpected(name))),
        failed: (make) => resolve(rejection(make, (error) => ownReason(signal, name, error))),
      });
      this.#turn(op, (engine, now) => engine.acquire(now, op, name, kind, wish));
    });
  }

  /** Why a lease of this kind can't wait for replicas; undefined if it can. */
  replicasProblem(kind: LockKind): string | undefined {
    return kind.names === undefined ? this.#driver.replicasProblem : "several names can't wait for replicas: take them one by one";
  }

  /** Resolves once enough replicas have the lease. Rejects with the reason of `unwanted` as soon as that aborts. */
  async confirm(held: LeaseState, replicas: ReplicaSettings, unwanted: AbortSignal): Promise<void> {
    const began = performance.now();
    const { name: lockName } = held;
    const confirmed = await this.#driver.confirm(held.id, replicas, unwanted);
    // If the lease has ended meanwhile, that is the better error.
    if (held.ended !== undefined) throw held.ended;
    if (this.remaining(held) <= 0) throw new LostError(lockName, 'expired');
    const waited = Math.trunc(performance.now() - began);
    if ('failure' in confirmed) throw failureError(confirmed, lockName, waited, this.#driver.connection);
    if ('loss' in confirmed) throw new LostError(lockName, confirmed.loss);
    if (!(confirmed.replicas >= replicas.min)) {
      throw new NotReplicatedError({ lockName, waited, confirmed: confirmed.replicas, wanted: replicas.min });
    }
  }

  /** Gives one hold back. */
  release(held: LeaseState): Promise<ReleaseOutcome> {
    held.holds -= 1;
    if (held.holds === 0) this.#held.delete(held.id);
    if (held.ended?.code === 'closed') return this.#releasedByClose(held.name);
    const over = held.loss === 'taken' ? 'not-owner' : 'already-expired';
    if (this.#ended) return Promise.resolve(over);
    const began = this.#driver.now;
    const released = this.#ask('released', held.name, (engine, now, op) => engine.release(now, op, held.id));
    return released.then(
      // The engine forgets a lost lease, but its `LeaseState` knows how it was lost.
      ({ outcome }) => (outcome === 'already-expired' ? over : outcome),
      (error: unknown) => {
        // The manager was closed meanwhile, and ended before the server answered.
        throw isLeaseholdError(error, 'closed') && this.#closing !== undefined ? this.#unanswered(held.name, began) : error;
      },
    );
  }

  async extend(held: LeaseState, ttl: number): Promise<void> {
    await this.#ask('extended', held.name, (engine, now, op) => engine.extend(now, op, held.id, ttl));
  }

  async convert(held: LeaseState, mode: Mode): Promise<void> {
    await this.#ask('converted', held.name, (engine, now, op) => engine.convert(now, op, held.id, mode));
  }

  async verify(held: LeaseState): Promise<boolean> {
    const outcome = await this.#ask('verified', held.name, (engine, now, op) => engine.verify(now, op, held.id));
    return outcome.held;
  }

  /** Takes one more hold, synchronously. */
  hold(held: LeaseState): void {
    let error: unknown = new NotHeldError(held.name);
    const op = this.#begin({ name: held.name, done: () => (error = undefined), failed: (make) => (error = make()) });
    this.#turn(op, (engine, now) => engine.hold(now, op, held.id));
    if (error !== undefined) throw error;
    held.holds += 1;
  }

  async inspect(name: string): Promise<Inspection> {
    const { inspection } = await this.#ask('inspected', name, (engine, now, op) => engine.inspect(now, op, name));
    return inspection;
  }

  async forceRelease(name: string): Promise<number> {
    const { holders } = await this.#ask('revoked', name, (engine, now, op) => engine.forceRelease(now, op, name));
    return holders;
  }

  /** How long a lease is still valid, in microseconds. Zero or less once it is over. */
  remaining(held: LeaseState): number {
    return held.ended === undefined ? this.#driver.remaining(held.id) : 0;
  }

  /** The locks that this manager holds and waits for, each in their order. */
  query(): { held: LockInfo[]; pending: LockInfo[] } {
    const clientId = this.#id;
    const held = [...this.#held.values()].map(({ name, mode }) => ({ name, mode, clientId }));
    return { held, pending: this.#calls.waits().map((wait) => ({ ...wait, clientId })) };
  }

  /** Ends waits, gives the leases back, and closes the connections opened here. A second call resolves with the first. */
  close(): Promise<Closed> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<Closed> {
    let closed: Closed = { unreleased: 0 };
    if (!this.#ended) {
      this.#givenBack = this.#giveBack();
      closed = await this.#givenBack;
      this.#end();
    }
    await this.#driver.closeLink();
    return closed;
  }

  async #giveBack(): Promise<Closed> {
    const leases = [...this.#held.values()];
    this.#held.clear();
    for (const held of leases) held.close();
    const began = this.#driver.now;
    const closed = this.#ask('closed', undefined, (engine, now, op) => engine.close(now, op));
    this.#untold = (lockName) => this.#unanswered(lockName, began);
    for (const held of leases) held.tell();
    // This fails only if the engine is broken. Then the server has confirmed no release.
    const { unreleased } = await closed.catch(() => ({ unreleased: leases.length }));
    if (this.#driver.isQuorum && isMajority(this.#driver.votesSince(began))) this.#untold = undefined;
    return { unreleased };
  }

  /** Called when the engine has closed: with the last answer, or when it has given up waiting for the server. */
  #closed(result: CallResult | undefined): void {
    // In a quorum, the last answer says nothing about the other servers.
    if (result === undefined || this.#driver.isQuorum) return;
    if ('reply' in result) {
      this.#untold = undefined;
    } else if (result.failure.kind === 'refused') {
      const { failure: { text }, cause } = result;
      // A key of another type belongs to another client by now, so there is nothing left to give back.
      this.#untold = text.includes('WRONGTYPE') ? undefined : (lockName) => refusalError(text, lockName, cause);
    }
  }

  async #releasedByClose(lockName: string): Promise<ReleaseOutcome> {
    await this.#givenBack;
    if (this.#untold === undefined) return 'released';
    throw this.#untold(lockName);
  }

  #unanswered(lockName: string, began: number): Error {
    const waited = Math.trunc((this.#driver.now - began) / 1_000);
    const votes = this.#driver.isQuorum ? this.#driver.votesSince(began) : undefined;
    return unreachableError(undefined, this.#driver.connection, { lockName, waited, votes });
  }

  #ask<Kind extends Outcome['kind']>(
    kind: Kind,
    name: string | undefined,
    input: (engine: Engine, now: number, op: number) => void,
  ): Promise<OutcomeOf<Kind>> {
    return new Promise((resolve) => {
      const is = (outcome: Outcome): outcome is OutcomeOf<Kind> => outcome.kind === kind;
      const failed = (make: () => Error): void => resolve(rejection(make));
      const done = (outcome: Outcome): void => (is(outcome) ? resolve(outcome) : failed(() => unexpected(name)));
      const op = this.#begin({ name, done, failed });
      this.#turn(op, (engine, now) => input(engine, now, op));
    });
  }

  /** Registers a call and returns its number; 0 if it has already failed. */
  #begin(call: Call): number {
    const { name: lockName } = call;
    const problem = this.#workerRequest.problem();
    if (!this.#ended && problem === undefined) return this.#calls.begin(call);
    fail(call, () => (problem === undefined ? new ClosedError({ lockName }) : new UnsupportedError(problem, { lockName })));
    return 0;
  }

  #turn(op: number, input: (engine: Engine, now: number) => void): void {
    if (op !== 0) this.#driver.turn(input);
  }

  #cancel(op: number): void {
    if (this.#calls.has(op)) this.#driver.turn((engine, now) => engine.cancel(now, op));
  }

  #complete(op: number, outcome: Outcome): void {
    const call = this.#calls.end(op);
    if (call === undefined) return;
    if (outcome.kind === 'failed') {
      const { connection } = this.#driver;
      return fail(call, () => toUserError(outcome.error, call.name, connection));
    }
    if (outcome.kind === 'closed') this.#closed(this.#driver.result);
    if (outcome.kind === 'converted') this.#held.get(outcome.grant.lease)?.convert(outcome.grant);
    const grant = grantOf(outcome);
    if (grant === undefined || call.acquire === undefined) return call.done(outcome);

    const { granted, names, ttl, stopListening } = call.acquire;
    stopListening?.();
    let held = this.#held.get(grant.lease);
    if (held === undefined) {
      held = new LeaseState(grant, call.name ?? '', ttl);
      if (outcome.kind === 'acquired-all') held.share(names ?? [], outcome.fences);
      this.#held.set(held.id, held);
    } else {
      // The owner of a reentrant lock gets another handle to the lease that it has.
      held.holds += 1;
    }
    const state = held;
    if (grant.local) this.#turns.run(this.#driver.now, () => granted(state));
    else granted(state);
  }

  #lose(lease: number, reason: LossReason): void {
    const held = this.#held.get(lease);
    if (held === undefined) return;
    this.#held.delete(lease);
    held.lose(reason);
    this.#driver.afterwards(() => held.tell());
  }

  /** The engine is broken: fail all open calls and count all leases as lost. */
  #break(cause: unknown): void {
    this.#end(cause);
    for (const held of this.#held.values()) {
      held.lose('expired');
      this.#driver.afterwards(() => held.tell());
    }
    this.#held.clear();
    this.#driver.afterwards(() => void this.#driver.closeLink());
  }

  #end(cause?: unknown): void {
    this.#ended = true;
    this.#driver.end(cause !== undefined);
    for (const call of this.#calls.endAll()) fail(call, () => new ClosedError({ lockName: call.name, cause }));
  }
}

function isMajority(votes: readonly Vote[]): boolean {
  return votes.filter(({ answer }) => answer === 'agreed').length * 2 > votes.length;
}

function reasonOf(signal: AbortSignal, name: string): unknown {
  return signal.reason ?? new CancelledError(name);
}

/** The signal's reason if the signal ended the wait, else `error`. */
function ownReason(signal: AbortSignal | undefined, name: string, error: unknown): unknown {
  return signal?.aborted === true && error instanceof CancelledError ? reasonOf(signal, name) : error;
}

/** The engine returned the wrong kind of outcome: a bug in this package. */
function unexpected(name: string | undefined): ProtocolError {
  return new ProtocolError('the engine returned the wrong kind of outcome; please report this as a bug', { lockName: name });
}

/** The id as UUID text, as tokens contain it. */
function uuidOf(id: Uint8Array): string {
  const hex = [...id].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
