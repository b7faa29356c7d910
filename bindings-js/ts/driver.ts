/** The engine and the connection together: what the one puts out the other carries, and the clock tells both. */

import { makeEngine, newClientId, textOf } from './client.js';
import { Clock } from './clock.js';
import type { Command } from './command.js';
import type { CallResult, Failure, Link, SubscriptionListener } from './connections/link.js';
import type { Config, Engine, Inspection, Mode, Outcome, ReleaseOutcome, Wish } from './engine.js';
import { CancelledError, ClosedError, type LossReason, NotHeldError, ProtocolError } from './errors.js';
import { Held } from './held.js';
import { Lease } from './lease.js';
import { errorOf, type LastFailure } from './outcome.js';
import { onAbort } from './signals.js';
import { Timer } from './timer.js';
import { Turns } from './turns.js';

/** A user's call that has not ended. */
interface Call {
  /** The lock that it is about. */
  readonly name: string | undefined;
  /** What an acquire wants; another call wants no lease. */
  readonly acquire?: Acquire;
  done(outcome: Outcome): void;
  failed(error: unknown): void;
}

interface Acquire {
  readonly mode: Mode;
  readonly ttl: number;
  granted(lease: Lease): void;
  readonly stopListening: (() => void) | undefined;
}

/** A lock that is held or waited for by one manager. */
export interface LockInfo {
  readonly name: string;
  readonly mode: Mode;
  /** The manager's id, as it stands in the tokens that `inspect` shows. */
  readonly clientId: string;
}

export class Driver {
  readonly #id: string;
  readonly #link: Link;
  readonly #engine: Engine;
  readonly #responseTimeout: number;
  readonly #clock = new Clock();
  readonly #timer = new Timer(() => this.#turn((now) => this.#engine.passed(now)));
  readonly #turns = new Turns();
  readonly #calls = new Map<number, Call>();
  readonly #held = new Map<number, Held>();
  #lastOp = 0;
  #now = 0;
  /** What the present turn led to, and what runs foreign code. */
  #after: (() => void)[] = [];
  /** Since the last answer. */
  #lastFailure: LastFailure | undefined;
  #closing: Promise<void> | undefined;
  #ended = false;

  /** The options are checked before a connection is looked at, so that a refused manager leaves nothing behind. */
  constructor(config: Config, connect: () => Link) {
    const id = newClientId();
    this.#id = textOf(id);
    this.#responseTimeout = config.responseTimeout;
    this.#engine = makeEngine(id, config, {
      send: (call, command) => this.#after.push(() => this.#send(call, command)),
      subscribe: (channel) => this.#after.push(() => this.#subscribe(channel)),
      unsubscribe: () => this.#after.push(() => this.#link.unsubscribe?.()),
      completed: (op, outcome) => this.#complete(op, outcome),
      lost: (lease, reason) => this.#lose(lease, reason),
    });
    try {
      this.#link = connect();
    } catch (error) {
      this.#engine.free();
      throw error;
    }
  }

  /** Takes the lock `name`. The signal ends the wait, and the promise rejects with its reason. */
  acquire(name: string, mode: Mode, wish: Wish, signal: AbortSignal | undefined): Promise<Lease> {
    if (signal?.aborted === true) return Promise.reject(reasonOf(signal, name));
    return new Promise((granted, reject) => {
      const stopListening = signal && onAbort(signal, () => this.#cancel(op));
      const op = this.#begin({
        name,
        acquire: { mode, ttl: wish.ttl, granted, stopListening },
        done: () => reject(unexpected(name)),
        failed: (error) => reject(signal?.aborted === true && error instanceof CancelledError ? reasonOf(signal, name) : error),
      });
      this.#turn((now) => this.#engine.acquire(now, op, name, mode, wish));
    });
  }

  /** Gives one hold back. */
  release(held: Held): Promise<ReleaseOutcome> {
    const { loss } = held;
    held.holds -= 1;
    if (held.holds === 0) this.#held.delete(held.id);
    const over = loss === 'taken' ? 'not-owner' : 'already-expired';
    if (this.#ended) return Promise.resolve(over);
    const released = this.#ask('released', held.name, (now, op) => this.#engine.release(now, op, held.id));
    // The engine has forgotten a lost lease; how it was lost is known here.
    return released.then(({ outcome }) => (outcome === 'already-expired' ? over : outcome));
  }

  async extend(held: Held, ttl: number): Promise<void> {
    await this.#ask('extended', held.name, (now, op) => this.#engine.extend(now, op, held.id, ttl));
  }

  async convert(held: Held, mode: Mode): Promise<void> {
    await this.#ask('converted', held.name, (now, op) => this.#engine.convert(now, op, held.id, mode));
  }

  async verify(held: Held): Promise<boolean> {
    const outcome = await this.#ask('verified', held.name, (now, op) => this.#engine.verify(now, op, held.id));
    return outcome.held;
  }

  /** One more hold, at once. */
  hold(held: Held): void {
    let error: unknown = new NotHeldError(held.name);
    const op = this.#begin({ name: held.name, done: () => (error = undefined), failed: (why) => (error = why) });
    this.#turn((now) => this.#engine.hold(now, op, held.id));
    if (error !== undefined) throw error;
    held.holds += 1;
  }

  async inspect(name: string): Promise<Inspection> {
    const { inspection } = await this.#ask('inspected', name, (now, op) => this.#engine.inspect(now, op, name));
    return inspection;
  }

  /** How long a lease is still valid, in microseconds; not positive once it is over. */
  remaining(held: Held): number {
    if (this.#ended || held.ended !== undefined) return 0;
    return this.#engine.validUntil(held.id) - this.#clock.now();
  }

  /** What is held and waited for here, each in the order in which it came. */
  query(): { held: LockInfo[]; pending: LockInfo[] } {
    const clientId = this.#id;
    const held = [...this.#held.values()].map(({ name, mode }) => ({ name, mode, clientId }));
    const pending: LockInfo[] = [];
    for (const { name, acquire } of this.#calls.values()) {
      if (acquire !== undefined && name !== undefined) pending.push({ name, mode: acquire.mode, clientId });
    }
    return { held, pending };
  }

  /** Ends waits, gives the leases back, and closes what was opened here. A second call ends with the first. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (!this.#ended) {
      const leases = [...this.#held.values()];
      this.#held.clear();
      for (const held of leases) held.close();
      const closed = this.#ask('closed', undefined, (now, op) => this.#engine.close(now, op));
      for (const held of leases) held.tell();
      await closed.catch(ignore);
      this.#end();
    }
    await this.#closeLink();
  }

  /** A connection of the user's making may take for ever to close. */
  async #closeLink(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, this.#responseTimeout)));
    const closed = Promise.resolve().then(() => this.#link.close());
    await Promise.race([closed.catch(ignore), late]);
    clearTimeout(timer);
  }

  #ask<Kind extends Outcome['kind']>(
    kind: Kind,
    name: string | undefined,
    input: (now: number, op: number) => void,
  ): Promise<Extract<Outcome, { kind: Kind }>> {
    return new Promise((resolve, failed) => {
      const is = (outcome: Outcome): outcome is Extract<Outcome, { kind: Kind }> => outcome.kind === kind;
      const done = (outcome: Outcome): void => (is(outcome) ? resolve(outcome) : failed(unexpected(name)));
      const op = this.#begin({ name, done, failed });
      this.#turn((now) => input(now, op));
    });
  }

  #begin(call: Call): number {
    const op = ++this.#lastOp;
    if (this.#ended) {
      this.#fail(call, new ClosedError({ lockName: call.name }));
      return op;
    }
    this.#calls.set(op, call);
    if (this.#calls.size === 1) this.#keepAlive(true);
    return op;
  }

  #cancel(op: number): void {
    if (this.#calls.has(op)) this.#turn((now) => this.#engine.cancel(now, op));
  }

  /** Whoever waits for a call keeps the process alive; a lease or an idle connection does not. */
  #keepAlive(alive: boolean): void {
    this.#timer.ref(alive);
    this.#link.ref?.(alive);
  }

  /** One input, and then what it led to. */
  #turn(input: (now: number) => void): void {
    if (this.#ended) return;
    const now = this.#clock.now();
    this.#now = now;
    try {
      input(now);
    } catch (cause) {
      this.#break(cause);
    }
    if (this.#after.length > 0) {
      const after = this.#after;
      this.#after = [];
      for (const act of after) act();
    }
    if (!this.#ended) this.#timer.set(now, this.#engine.wake);
  }

  #complete(op: number, outcome: Outcome): void {
    const call = this.#calls.get(op);
    if (call === undefined) return;
    this.#calls.delete(op);
    if (this.#calls.size === 0) this.#keepAlive(false);
    if (outcome.kind === 'failed') return this.#fail(call, errorOf(outcome.error, call.name, this.#lastFailure));
    if (outcome.kind === 'converted') this.#held.get(outcome.grant.lease)?.convert(outcome.grant);
    if (outcome.kind !== 'acquired' || call.acquire === undefined) return call.done(outcome);

    const { granted, ttl, stopListening } = call.acquire;
    stopListening?.();
    const held = new Held(outcome.grant, call.name ?? '', ttl);
    this.#held.set(held.id, held);
    const lease = new Lease(this, held);
    if (outcome.grant.local) this.#turns.run(this.#now, () => granted(lease));
    else granted(lease);
  }

  #fail(call: Call, error: unknown): void {
    call.acquire?.stopListening?.();
    call.failed(error);
  }

  #lose(lease: number, reason: LossReason): void {
    const held = this.#held.get(lease);
    if (held === undefined) return;
    this.#held.delete(lease);
    held.lose(reason);
    this.#after.push(() => held.tell());
  }

  #send(call: number, command: Command): void {
    const answer = this.#link.send === undefined ? this.#link.call(command.words) : this.#link.send(command.wire);
    answer.then(
      (result) => this.#answered(call, result),
      (cause: unknown) => this.#answered(call, { failure: { kind: 'interrupted', text: String(cause) }, cause }),
    );
  }

  #answered(call: number, result: CallResult): void {
    if ('reply' in result) {
      this.#lastFailure = undefined;
      return this.#turn((now) => this.#engine.reply(now, call, result.reply));
    }
    const { failure, cause } = result;
    this.#lastFailure = { failure, cause };
    this.#turn((now) => this.#engine.failed(now, call, failure));
  }

  #subscribe(channel: string): void {
    if (this.#link.subscribe !== undefined) return this.#link.subscribe(channel, this.#listener);
    const failure: Failure = { kind: 'unsupported', text: 'this connection can not subscribe' };
    this.#turn((now) => this.#engine.unsubscribed(now, failure));
  }

  readonly #listener: SubscriptionListener = {
    acknowledged: () => this.#turn((now) => this.#engine.subscribed(now)),
    message: (payload) => this.#turn((now) => this.#engine.message(now, payload)),
    broken: (failure) => this.#turn((now) => this.#engine.unsubscribed(now, failure)),
  };

  /** The engine is broken, which no input should do: nobody is left waiting, and no lease counts as held. */
  #break(cause: unknown): void {
    this.#end(cause);
    for (const held of this.#held.values()) {
      held.lose('expired');
      this.#after.push(() => held.tell());
    }
    this.#held.clear();
    this.#after.push(() => void this.#closeLink());
  }

  #end(cause?: unknown): void {
    this.#ended = true;
    this.#timer.stop();
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) this.#fail(call, new ClosedError({ lockName: call.name, cause }));
    if (cause === undefined) this.#engine.free();
  }
}

function reasonOf(signal: AbortSignal, name: string): unknown {
  return signal.reason ?? new CancelledError(name);
}

/** An outcome of another kind than asked for: a fault of this package. */
function unexpected(name: string | undefined): ProtocolError {
  return new ProtocolError('an outcome of another kind', { lockName: name });
}

function ignore(): void {}
