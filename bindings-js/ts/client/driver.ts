/** Runs the engine: carries its outputs to the connections, and gives it replies and messages. */

import { type CallResult, type Failure, type Link, type LinkTime, messageOf, type SubscriptionListener, type Time, timeOf } from '../connections/index.js';
import { type Command, type Config, Engine, type EngineLeader, type EngineModule, type LockNameAndMode, type Outcome } from '../engine/index.js';
import { Renewer } from '../renewer/index.js';
import { type LossReason, UnsupportedError, type Vote } from '../support/errors.js';
import { ignore } from '../support/ignore.js';
import { afterPendingCalls, afterThisCode, soon, type Timer } from '../support/timers.js';
import { DedicatedConnections } from './dedicated.js';
import type { ConnectionState } from './engine-errors.js';
import { InFlight } from './in-flight.js';
import type { Labels } from './labels.js';
import { explained } from './refusals.js';
import { SlotsCheck } from './slots.js';
import { deleteIfEqualOf, VersionCheck, type VersionCheckResult } from './version.js';
import { WakeTimer } from './wake-timer.js';

/** Receives the engine's results. It must not call the driver from within these, except `defer`, `stop` and getters. */
export interface DriverListener {
  completed(op: number, outcome: Outcome): void;
  lost(lease: number, reason: LossReason): void;
  /** An observation has learned who leads. */
  leader(op: number, leader: EngineLeader | null): void;
  /** A timer has fired, so the event loop turns. */
  turned(): void;
  /** A server's connection works again, after so many milliseconds. */
  reconnected(server: string | undefined, down: number): void;
  /** The worker's server says that this client doesn't hold a lease. */
  notHeld(lease: number): void;
  /** The worker can't renew leases, or can again. */
  worker(error: Error | undefined): void;
  /** The engine threw, which no input should cause. The listener must stop the driver. */
  broken(cause: unknown): void;
}

/** The servers that a client uses. A member of a quorum can also be a cluster. */
export interface Servers {
  /** Returns one connection, or one to each server of a quorum. */
  connect(): readonly Link[];
  /**
   * Says what is wrong with a server, from its reply to `INFO server`, and for a cluster also to `CLUSTER NODES`. By default
   * only the version is checked.
   */
  problemOf?(info: string, server: number): string | undefined;
  /** Set for a quorum, whose engine is a module of its own. */
  readonly engine?: EngineModule;
  /** The URL of a module for a worker that renews leases while the event loop is blocked. */
  readonly renewIn?: string | undefined;
  /** The option: whether the server must enforce slots. Undefined to ask it. */
  readonly clusterSlots?: boolean | undefined;
}

/** What the driver knows about one server. */
interface ServerState {
  readonly link: Link;
  readonly version: VersionCheck;
  /** The last failure since the last reply. */
  lastFailure: { failure: Failure; cause: unknown } | undefined;
  /** When the latest command that got a reply was sent, if there was one. */
  lastReplied: number | undefined;
}

export class Driver {
  /** The result of a command, if the current input is one. Undefined for a wake-up, a message or a user's operation. */
  result: CallResult | undefined;
  readonly #servers: readonly ServerState[];
  readonly #engine: Engine;
  readonly #listener: DriverListener;
  readonly #responseTimeout: number;
  readonly #dedicated: DedicatedConnections;
  /** The timers and the clock that calls are measured by. */
  readonly time: Time;
  /** Whether the servers are in memory, so that there is no I/O. */
  readonly isInMemory: boolean;
  readonly #ignoreTime: () => void;
  /** Undefined for a quorum. */
  readonly labels: Labels | undefined;
  readonly #timer = new WakeTimer(() => {
    this.#listener.turned();
    this.#wake();
    if (!this.#stopped) this.labels?.keep();
  });
  /** What to do once the engine has handled the current input: commands to send, and calls into the user's code. */
  #deferred: (() => void)[] = [];
  /** When the engine began to wait for the end of this turn of the event loop, by the engine's clock. */
  #turning: number | undefined;
  /** An input that is given before any other one, and at the end of this turn. */
  #waiting: ((engine: Engine) => void) | undefined;
  /** Callbacks for the end of this turn. */
  #whenTurned: (() => void)[] = [];
  #stopped = false;
  readonly #inFlight = new InFlight();
  /** Set if a worker renews leases while the event loop is blocked. */
  readonly renewer: Renewer | undefined;

  /** Checks the options before it uses a connection, so that a refused manager leaves nothing behind. */
  constructor(id: Uint8Array, config: Config, servers: Servers, listener: DriverListener, makeLabels: (link: Link) => Labels) {
    this.#listener = listener;
    this.#responseTimeout = config.responseTimeout;
    this.#engine = new Engine(id, config, {
      send: (id, node, command) => this.defer(() => this.#send(id, node, command)),
      sendDedicated: (op, key, command) => this.#dedicated.send(op, key, command.words),
      closeDedicated: (op) => this.#dedicated.close(op),
      subscribe: (channel) => {
        // The channel of a reentrant lock has another beginning.
        if (channel.startsWith('leasehold:')) {
          this.labels?.leases.engineSubscribes();
          this.defer(() => this.labels?.tell());
        }
        this.defer(() => this.#subscribe(channel));
      },
      unsubscribe: (channel) => this.defer(() => this.#first.link.unsubscribe?.(channel)),
      completed: (op, outcome) => {
        this.#listener.completed(op, outcome);
        this.#dedicated.end(op);
      },
      lost: (lease, reason) => this.#listener.lost(lease, reason),
      leader: (op, leader) => this.defer(() => this.#listener.leader(op, leader)),
    }, servers.engine);
    let links: readonly Link[] = [];
    try {
      links = servers.connect();
      this.#servers = links.map((link, at) => {
        const problemOf = servers.problemOf && ((info: string) => servers.problemOf?.(info, at));
        link.onReconnect?.((down) => this.#listener.reconnected(link.address?.(), down));
        const version = new VersionCheck(link, config.responseTimeout, problemOf, new SlotsCheck(link, servers.problemOf === undefined ? servers.clusterSlots : false));
        return { link, version, lastFailure: undefined, lastReplied: undefined };
      });
      this.renewer = servers.renewIn === undefined ? undefined : this.#makeRenewer(servers.renewIn);
    } catch (error) {
      this.#engine.free();
      // They listen to the user's clients.
      for (const link of links) void link.close().catch(ignore);
      throw error;
    }
    if (!this.isQuorum) {
      this.labels = makeLabels(this.#first.link);
      const { version } = this.#first;
      version.slots.onEnforced = () => !this.#stopped && this.#engine.setCluster(0);
      version.onPassed = (info) => {
        const command = deleteIfEqualOf(info);
        if (command !== undefined && !this.#stopped) this.#engine.setDeleteIfEqual(command);
      };
    }
    this.#dedicated = new DedicatedConnections(this.#first.link, config.responseTimeout, (op, result) => this.#settleDedicated(op, result));
    this.#servers.forEach(({ version }, at) => version.slots.enforced === true && this.#engine.setCluster(at));
    const { time } = this.#first.link;
    this.time = timeOf(this.#first.link);
    this.isInMemory = time !== undefined;
    this.#ignoreTime = time === undefined ? ignore : this.#follow(time);
  }

  #makeRenewer(module: string): Renewer {
    if (this.#first.link.time !== undefined) throw new UnsupportedError('`renewIn` with a server in memory, which is in this thread only; leave the option out');
    const engine = this.#engine;
    engine.noteMoments();
    return new Renewer(module, {
      renewals: (lease) => engine.renewals(lease),
      remaining: (lease) => engine.remaining(lease),
      get now() {
        return engine.now;
      },
      renewed: (lease, token, sent, left) => engine.renewed(lease, token, sent, left),
      notHeld: (lease) => this.#listener.notHeld(lease),
      state: (error) => this.#listener.worker(error),
    });
  }

  /** Uses the time of servers in memory. Returns a function that ends that. */
  #follow(time: LinkTime): () => void {
    const now = (): number => time.elapsed;
    this.#engine.setClocks({ monotonic: now, wall: now });
    // This time stands still while the machine sleeps. Fake timers that pass hours run each timer on the way, so let these be few.
    this.#timer.longestSleep = HOUR;
    this.#timer.timers = this.time;
    return time.onAdvance(() => {
      // The timer runs by the host's time, which is behind now.
      this.#timer.stop();
      this.input(PASSED);
    });
  }

  /** When the current input happened. */
  get now(): number {
    return this.#engine.now;
  }

  get library(): string {
    return this.isQuorum ? `quorum of ${this.#servers.length}` : this.#first.link.library;
  }

  get isQuorum(): boolean {
    return this.#servers.length > 1;
  }

  /** The current state of the connection, for errors. */
  get connection(): ConnectionState {
    const states = this.#servers.map(({ link, lastFailure }) => ({ lastFailure, lastError: link.lastError?.(), address: link.address?.(), stays: link.leavesReplicas !== true && link.isCluster !== true }));
    const [only] = states;
    if (states.length === 1 && only !== undefined) return only;
    return { lastFailure: undefined, lastError: undefined, address: undefined, servers: states };
  }

  /** The same for an operation that may have a connection of its own. */
  connectionOf(op: number): ConnectionState {
    const failed = this.#dedicated.lastFailure(op);
    return failed === undefined ? this.connection : { ...this.connection, lastFailure: { failure: failed.failure, cause: failed.cause } };
  }

  /** Asks every server for its version and identity, before any other command. */
  checkServers(): Promise<VersionCheckResult[]> {
    return Promise.all(this.#servers.map(({ version }) => version.check({ keepAlive: true })));
  }

  /** Which servers are reachable and have replied to a command that was sent after `began`. */
  votesSince(began: number): readonly Vote[] {
    return this.#servers.map(({ link, lastReplied = -1, lastFailure }, at) => {
      const replied = lastReplied >= began && lastFailure === undefined;
      return { server: link.address?.() ?? `connection ${at + 1}`, answer: replied ? 'agreed' : 'unreachable' };
    });
  }

  /** Gives the engine one input, then carries out its outputs. */
  input(handle: (engine: Engine) => void, result?: CallResult): void {
    if (this.#stopped) return;
    this.#giveWaiting();
    this.renewer?.sync();
    this.result = result;
    try {
      handle(this.#engine);
    } catch (cause) {
      this.#listener.broken(cause);
    }
    if (this.#deferred.length > 0) {
      const deferred = this.#deferred;
      this.#deferred = [];
      for (const act of deferred) act();
    }
    if (!this.#stopped) this.#schedule();
  }

  /**
   * Gives the engine an input, perhaps only once the code that runs now has ended: then the engine is woken anyway, and one call into
   * WebAssembly does both. For a call that no other call of this client can wait for.
   */
  inputAlone(handle: (engine: Engine) => void): void {
    if (this.#turning !== undefined || !this.#inFlight.isEmpty || this.isInMemory) return this.input(handle);
    if (this.#stopped) return;
    this.#waiting = handle;
    this.#awaitTurn();
  }

  /** Gives the engine the input that waits. */
  #giveWaiting(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    this.#waiting = undefined;
    this.input(waiting);
  }

  /** Ends the leases whose time is over. */
  expire(): void {
    this.input(PASSED);
  }

  /** Wakes the engine in time. If it waits for nothing but the calls of this turn, then after them. */
  #schedule(): void {
    const { now, wake } = this.#engine;
    if (wake > now) return this.#timer.set(now, wake);
    if (this.#turning !== undefined && now - this.#turning < LOST) return;
    this.#awaitTurn();
  }

  #awaitTurn(): void {
    const { now } = this.#engine;
    this.#turning = now;
    // In memory there is no I/O to wait for.
    if (this.isInMemory) return soon(this.#turned);
    // Nagle's algorithm: a call leaves at once if nothing is in flight. Otherwise it shares a command with the calls of this turn.
    if (this.#inFlight.isEmpty) afterThisCode(this.#turned);
    else afterPendingCalls(this.#turned);
    // If the host loses that callback, the engine is woken anyway, and the next input asks for another one.
    this.#timer.set(now, now + LOST);
  }

  /** The calls of this turn have been made. */
  readonly #turned = (): void => {
    if (this.#turning !== undefined) this.#wake();
  };

  #wake(): void {
    this.#turning = undefined;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    const { link } = this.#first;
    const wake = (): void => this.input(waiting === undefined ? PASSED : (engine) => {
      engine.last();
      waiting(engine);
    });
    // The engine sends what it has gathered.
    if (link.together === undefined) wake();
    else link.together(wake);
    for (const tell of this.#whenTurned.splice(0)) tell();
  }

  /**
   * Resolves when the commands of all calls until now have been answered, and those to which their answers led. At most one response
   * timeout later.
   */
  async settled(): Promise<void> {
    // Some commands leave only after the calls of this turn.
    if (this.#turning !== undefined) await new Promise<void>((resolve) => this.#whenTurned.push(resolve));
    if (!this.#stopped) await this.#inFlight.settled(this.#responseTimeout, this.time);
  }

  /** Runs `act` once the engine has handled the current input. For calls into the user's code. */
  defer(act: () => void): void {
    this.#deferred.push(act);
  }

  /** How long a lease is still valid, in microseconds. Zero or less once it has ended. */
  remaining(lease: number): number {
    if (this.#stopped) return 0;
    this.renewer?.sync();
    return this.#engine.remaining(lease);
  }

  /** The locks that linger. */
  lingering(): LockNameAndMode[] {
    this.#giveWaiting();
    return this.#stopped ? [] : this.#engine.lingering();
  }

  /** Why this client can't wait for replicas. Undefined if it can. */
  get replicasProblem(): string | undefined {
    return this.isQuorum || this.#dedicated.isSupported ? undefined : NEEDS_CONNECTIONS;
  }

  /** Sets whether the timer and the adapters' own sockets keep the process alive. */
  ref(alive: boolean): void {
    this.#timer.ref(alive);
    for (const { link } of this.#servers) link.ref?.(alive);
  }

  /** Ignores all further inputs. A broken engine is not freed. */
  stop(reason: 'closed' | 'broken'): void {
    this.#stopped = true;
    this.renewer?.close();
    this.#waiting = undefined;
    this.#timer.stop();
    this.#ignoreTime();
    this.#dedicated.endAll();
    if (reason === 'closed') this.#engine.free();
  }

  /** Closes the links. It waits for one response timeout at most, because a custom connection may never finish. */
  async closeLinks(): Promise<void> {
    let timer: Timer | undefined;
    const timeout = new Promise<void>((resolve) => (timer = this.time.setTimeout(resolve, this.#responseTimeout)));
    const closed = this.#servers.map(({ link }) => Promise.resolve().then(() => link.close()).catch(ignore));
    await Promise.race([Promise.all(closed), timeout]);
    this.time.clearTimeout(timer);
  }

  get #first(): ServerState {
    return this.#servers[0] as ServerState;
  }

  #send(id: number, node: number, command: Command): void {
    const server = this.#servers[node] as ServerState;
    const { link, version } = server;
    const sent = this.now;
    const wave = this.#inFlight.sent();
    const answered = (result: CallResult): void => this.#inFlight.answered(wave, () => {
      if ('reply' in result) this.labels?.heard(command, result.reply);
      this.#settle(id, server, sent, result);
    });
    const failed = (cause: unknown): void => answered({ failure: { kind: 'interrupted', text: messageOf(cause) }, cause });
    try {
      if (version.passed && link.send !== undefined) return link.send(command.wire, answered);
      const send = (): Promise<CallResult> => sendOver(link, command);
      const result = version.passed ? send() : version.guard(command, send);
      result.then(answered, failed);
    } catch (cause) {
      // A client that was patched may throw. The other commands of this input leave all the same.
      soon(() => failed(cause));
    }
  }

  #settle(id: number, server: ServerState, sent: number, result: CallResult): void {
    if ('reply' in result) {
      this.renewer?.hear();
      server.lastFailure = undefined;
      server.lastReplied = Math.max(server.lastReplied ?? sent, sent);
      return this.input((engine) => engine.reply(id, result.reply), result);
    }
    const [failure, { cause }] = [explained(result.failure), result];
    server.lastFailure = { failure, cause };
    this.input((engine) => engine.failed(id, failure), result);
  }

  #settleDedicated(op: number, result: CallResult): void {
    this.input((engine) => ('reply' in result ? engine.dedicatedReply(op, result.reply) : engine.dedicatedFailed(op, explained(result.failure))));
  }

  /** Subscribes to a channel that the engine did not ask for. */
  listen(channel: string): void {
    if (!this.#stopped) this.#subscribe(channel);
  }

  #subscribe(channel: string): void {
    // The channel of a reentrant lock has another beginning, and none of these messages.
    const leases = channel.startsWith('leasehold:') ? this.labels?.leases : undefined;
    const listener: SubscriptionListener = {
      acknowledged: () => leases?.channel('on') !== true && this.input((engine) => engine.subscribed(channel)),
      message: (payload) => leases?.hears(payload) !== true && this.input((engine) => engine.message(channel, payload)),
      broken: (cause) => {
        const failure = explained(cause);
        const isFinal = failure.kind === 'refused' || failure.kind === 'unsupported';
        if (leases?.channel(isFinal ? 'never' : 'off') !== true) this.input((engine) => engine.unsubscribed(channel, failure));
      },
    };
    const { link } = this.#first;
    if (link.subscribe !== undefined) return link.subscribe(channel, listener);
    // Asynchronous, so that the commands of this input go first.
    soon(() => listener.broken({ kind: 'unsupported', text: "this connection can't subscribe" }));
  }
}

const PASSED = (engine: Engine): void => engine.passed();

const HOUR = 3_600_000_000;
/** A turn of the event loop that takes longer may never end. In microseconds. */
const LOST = 100_000;
const NEEDS_CONNECTIONS = '`waitForReplicas` opens its own connections; pass an ioredis, node-redis or GLIDE client';

function sendOver(link: Link, command: Command): Promise<CallResult> {
  return link.send === undefined ? link.call(command.words) : new Promise((resolve) => link.send?.(command.wire, resolve));
}
