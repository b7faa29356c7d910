/** Runs the engine: carries its outputs to the connection, and feeds it answers, messages and the time. */

import type { CallResult, Failure, Link, SubscriptionListener } from '../connections/index.js';
import { type Command, type Config, Engine, type EngineModule, type Outcome } from '../engine/index.js';
import type { LossReason, Vote } from '../support/errors.js';
import { Clock, Timer } from './clock.js';
import type { ConnectionState } from './engine-errors.js';
import { confirm, type ReplicaResult, type ReplicaSettings } from './replicas.js';
import { VersionCheck, type VersionCheckResult } from './version.js';

/** Receives the engine's results. None of these may call the loop. */
export interface Listener {
  completed(op: number, outcome: Outcome): void;
  lost(lease: number, reason: LossReason): void;
  /** The engine threw, which no input should cause. The listener must end the loop. */
  broken(cause: unknown): void;
}

/** The servers that a manager uses. */
export interface Servers {
  /** Returns one connection, or one to each server of a quorum. */
  connect(): readonly Link[];
  /** What is wrong with a server, by its answer to `INFO server`. By default only its version is checked. */
  judge?(info: string, server: number): string | undefined;
  /** Set for a quorum: its engine is a module of its own. */
  readonly wasm?: EngineModule;
}

/** One of the servers. */
interface Node {
  readonly link: Link;
  readonly version: VersionCheck;
  /** The last failure since the last answer. */
  lastFailure: { failure: Failure; cause: unknown } | undefined;
  /** When the latest command that was answered was sent, if there was one. */
  answered: number | undefined;
}

export class Driver {
  /** When the current turn began. */
  now = 0;
  /** The result of a command, if the current turn handles one. Undefined for a timer, a message or a user's call. */
  result: CallResult | undefined;
  readonly #nodes: readonly Node[];
  readonly #engine: Engine;
  readonly #listener: Listener;
  readonly #responseTimeout: number;
  readonly #clock = new Clock();
  readonly #timer = new Timer(() => this.turn((engine, now) => engine.passed(now)));
  /** Actions to run at the end of the current turn: commands to send, and calls into the user's code. */
  #after: (() => void)[] = [];
  #ended = false;

  /** Checks the options before it uses a connection, so that a refused manager leaves nothing behind. */
  constructor(id: Uint8Array, config: Config, servers: Servers, listener: Listener) {
    this.#listener = listener;
    this.#responseTimeout = config.responseTimeout;
    this.#engine = new Engine(id, config, {
      send: (call, node, command) => this.#after.push(() => this.#send(call, node, command)),
      subscribe: (channel) => this.#after.push(() => this.#subscribe(channel)),
      unsubscribe: (channel) => this.#after.push(() => this.#first.link.unsubscribe?.(channel)),
      completed: (op, outcome) => this.#listener.completed(op, outcome),
      lost: (lease, reason) => this.#listener.lost(lease, reason),
    }, servers.wasm);
    try {
      this.#nodes = servers.connect().map((link, server) => {
        const judge = servers.judge && ((info: string) => servers.judge?.(info, server));
        const version = new VersionCheck(link, config.responseTimeout, judge);
        return { link, version, lastFailure: undefined, answered: undefined };
      });
    } catch (error) {
      this.#engine.free();
      throw error;
    }
    if (this.#first.link.isCluster === true) this.#engine.setCluster();
  }

  get library(): string {
    return this.isQuorum ? `quorum of ${this.#nodes.length}` : this.#first.link.library;
  }

  get isQuorum(): boolean {
    return this.#nodes.length > 1;
  }

  /** The current state of the connection, for errors. */
  get connection(): ConnectionState {
    const states = this.#nodes.map(({ link, lastFailure }) => ({ lastFailure, lastError: link.lastError?.(), address: link.address?.() }));
    const [only] = states;
    if (states.length === 1 && only !== undefined) return only;
    return { lastFailure: undefined, lastError: undefined, address: undefined, servers: states };
  }

  /** Asks every server for its version and identity, before any other command. */
  meet(): Promise<VersionCheckResult[]> {
    return Promise.all(this.#nodes.map(({ version }) => version.ask(true)));
  }

  /** Which servers are reachable and have answered a command that was sent after `began`. */
  votesSince(began: number): readonly Vote[] {
    return this.#nodes.map(({ link, answered = -1, lastFailure }, at) => {
      const heard = answered >= began && lastFailure === undefined;
      return { server: link.address?.() ?? `connection ${at + 1}`, answer: heard ? 'agreed' : 'unreachable' };
    });
  }

  /** Gives the engine one input, then carries out its outputs. */
  turn(input: (engine: Engine, now: number) => void, result?: CallResult): void {
    if (this.#ended) return;
    const now = this.#clock.now();
    this.now = now;
    this.result = result;
    try {
      input(this.#engine, now);
    } catch (cause) {
      this.#listener.broken(cause);
    }
    if (this.#after.length > 0) {
      const after = this.#after;
      this.#after = [];
      for (const act of after) act();
    }
    if (!this.#ended) this.#timer.set(now, this.#engine.wake);
  }

  /** Runs `act` at the end of the current turn. For calls into the user's code. */
  afterwards(act: () => void): void {
    this.#after.push(act);
  }

  /** How long a lease is still valid, in microseconds. Zero or less once it is over. */
  remaining(lease: number): number {
    return this.#ended ? 0 : this.#engine.validUntil(lease) - this.#clock.now();
  }

  /** Why this manager can't wait for replicas; undefined if it can. */
  get replicasProblem(): string | undefined {
    if (this.isQuorum) return "a quorum can't wait for replicas: its servers are independent of each other";
    if (this.#first.link.open !== undefined) return undefined;
    return '`waitForReplicas` opens its own connections; pass an ioredis, node-redis or GLIDE client';
  }

  /** Asks how many replicas have a lease. */
  confirm(lease: number, replicas: ReplicaSettings, unwanted: AbortSignal): Promise<ReplicaResult> {
    const touch = this.#ended ? [] : this.#engine.touch(lease);
    return confirm(this.#first.link, touch, replicas, this.#responseTimeout, unwanted);
  }

  keepAlive(alive: boolean): void {
    this.#timer.ref(alive);
    for (const { link } of this.#nodes) link.ref?.(alive);
  }

  /** Stops the loop: it ignores all further inputs. A broken engine is not freed. */
  end(broken: boolean): void {
    this.#ended = true;
    this.#timer.stop();
    if (!broken) this.#engine.free();
  }

  /** Closes the links. It waits for one response timeout at most, because a custom connection may never finish. */
  async closeLink(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, this.#responseTimeout)));
    const closed = this.#nodes.map(({ link }) => Promise.resolve().then(() => link.close()).catch(ignore));
    await Promise.race([Promise.all(closed), late]);
    clearTimeout(timer);
  }

  get #first(): Node {
    return this.#nodes[0] as Node;
  }

  #send(call: number, at: number, command: Command): void {
    const node = this.#nodes[at] as Node;
    const { link, version } = node;
    const sent = this.now;
    const answer = version.passed ? carry(link, command) : version.guard(() => carry(link, command));
    answer.then(
      (result) => this.#answered(call, node, sent, result),
      (cause: unknown) => this.#answered(call, node, sent, { failure: { kind: 'interrupted', text: String(cause) }, cause }),
    );
  }

  #answered(call: number, node: Node, sent: number, result: CallResult): void {
    if ('reply' in result) {
      node.lastFailure = undefined;
      node.answered = Math.max(node.answered ?? sent, sent);
      return this.turn((engine, now) => engine.reply(now, call, result.reply), result);
    }
    const { failure, cause } = result;
    node.lastFailure = { failure, cause };
    this.turn((engine, now) => engine.failed(now, call, failure), result);
  }

  #subscribe(channel: string): void {
    const listener = this.#listen(channel);
    const { link } = this.#first;
    if (link.subscribe !== undefined) return link.subscribe(channel, listener);
    // Asynchronous, so that the commands of this turn go first.
    queueMicrotask(() => listener.broken({ kind: 'unsupported', text: "this connection can't subscribe" }));
  }

  #listen(channel: string): SubscriptionListener {
    return {
      acknowledged: () => this.turn((engine, now) => engine.subscribed(now, channel)),
      message: (payload) => this.turn((engine, now) => engine.message(now, channel, payload)),
      broken: (failure) => this.turn((engine, now) => engine.unsubscribed(now, channel, failure)),
    };
  }
}

function carry(link: Link, command: Command): Promise<CallResult> {
  return link.send === undefined ? link.call(command.words) : link.send(command.wire);
}

function ignore(): void {}
