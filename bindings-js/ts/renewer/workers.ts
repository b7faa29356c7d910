/**
 * The workers of this process: one for each module.
 *
 *     starting --ready--> working --error, exit--> pausing --> starting ...
 *        '--the module can't be used--> unusable
 *
 * A worker that has worked is started again, after a second, then two, and so on up to a minute. A module that can't be imported, or
 * makes no client, would most likely fail again, so it is not tried again while managers use it.
 */

import { InvalidOptionError, isLeaseholdError, UnreachableError, UnsupportedError } from '../support/errors.js';
import { setTimerRef } from '../support/host.js';
import { ignore } from '../support/ignore.js';
import { HOST, type HostTimer, soon } from '../support/timers.js';
import type { FromWorker, ToWorker } from './messages.js';
import { NO_THREADS } from './module.js';
import { program } from './program/own.js';

/** A message without its time. */
export type Message = ToWorker extends infer One ? (One extends ToWorker ? Omit<One, 'now'> : never) : never;

/** A manager that uses a worker. */
export interface Share {
  /** A worker was started, and must get everything anew. */
  started(): void;
  /** The server says that an entry's token holds nothing. */
  gone(id: number): void;
  /** The worker can't renew, or can again. */
  state(error: Error | undefined): void;
}

const WORKERS = new Map<string, ModuleWorker>();
/** The first pause before a worker is started again, and the longest, in milliseconds. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 60_000];

/** The worker of a module. Throws `unsupported` on a host without threads. */
export function workerOf(module: string): ModuleWorker {
  const worker = WORKERS.get(module) ?? new ModuleWorker(module);
  WORKERS.set(module, worker);
  return worker;
}

type Thread = InstanceType<(typeof import('node:worker_threads'))['Worker']>;

export class ModuleWorker {
  readonly #module: string;
  readonly #Worker: (typeof import('node:worker_threads'))['Worker'];
  readonly #shares = new Map<number, Share>();
  #thread: Thread | undefined;
  #lastShare = 0;
  #pause = FIRST_PAUSE;
  #timer: HostTimer | undefined;
  /** Why it doesn't renew, if it doesn't. */
  #error: Error | undefined;

  constructor(module: string) {
    const { process } = globalThis as { process?: Partial<NodeJS.Process> };
    const threads = process?.getBuiltinModule?.('node:worker_threads');
    if (threads?.Worker === undefined || typeof SharedArrayBuffer === 'undefined') throw new UnsupportedError(NO_THREADS);
    this.#module = module;
    this.#Worker = threads.Worker;
  }

  /** Adds a manager, and returns its number. The manager then tells the worker of itself. */
  join(share: Share): number {
    this.#shares.set(++this.#lastShare, share);
    if (this.#shares.size === 1) this.#startFirst();
    const error = this.#error;
    // Later, so that the program can add a listener first.
    if (error !== undefined) soon(() => share.state(error));
    return this.#lastShare;
  }

  /** A manager has closed. The worker ends with the last one. */
  leave(number: number): void {
    this.post({ kind: 'end', share: number });
    this.#shares.delete(number);
    if (this.#shares.size > 0) return;
    WORKERS.delete(this.#module);
    HOST.clearTimeout(this.#timer);
    void this.#end()?.catch(ignore);
  }

  /** Tells the worker something, if it runs. */
  post(message: Message): void {
    this.#thread?.postMessage({ ...message, now: HOST.now() });
  }

  /** The host may refuse it, such as Node with `--permission`. */
  #startFirst(): void {
    try {
      this.#start();
    } catch (cause) {
      this.#shares.clear();
      WORKERS.delete(this.#module);
      throw isLeaseholdError(cause) ? cause : new UnsupportedError(`\`renewIn\`, because this host starts no worker: ${textOf(cause)}`, { cause });
    }
  }

  #startAgain(): void {
    try {
      this.#start();
    } catch (cause) {
      return this.#died(cause);
    }
    for (const share of this.#shares.values()) share.started();
  }

  #start(): void {
    const { source, isText } = program();
    const thread = new this.#Worker(source, { eval: isText, workerData: { module: this.#module }, name: 'leasehold' });
    this.#thread = thread;
    const isCurrent = (): boolean => this.#thread === thread;
    thread.on('message', (message: FromWorker) => isCurrent() && this.#told(message));
    thread.on('error', (cause) => isCurrent() && this.#died(cause));
    thread.on('exit', (code) => isCurrent() && this.#died(new Error(`it exited with code ${code}`)));
    // It keeps no process alive. Last, because a listener may.
    thread.unref();
  }

  #told(message: FromWorker): void {
    switch (message.kind) {
      case 'ready':
        this.#pause = FIRST_PAUSE;
        return this.#setState(undefined);
      case 'answered':
        return this.#setState(undefined);
      case 'failing':
        return this.#setState(unreachable(message.problem));
      case 'gone':
        return this.#shares.get(message.share)?.gone(message.id);
      case 'unusable':
        void this.#end()?.catch(ignore);
        return this.#setState(new InvalidOptionError('renewIn', `names a module that can't be used, ${this.#module}: ${textOf(message.error)}`, { cause: message.error }));
    }
  }

  #died(cause: unknown): void {
    void this.#end()?.catch(ignore);
    this.#setState(unreachable(`the worker has died, and is started again in ${this.#pause / 1_000} s: ${textOf(cause)}`, cause));
    this.#timer = HOST.setTimeout(() => this.#startAgain(), this.#pause);
    setTimerRef(this.#timer, 'unref');
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE);
  }

  #end(): Promise<number> | undefined {
    const thread = this.#thread;
    this.#thread = undefined;
    return thread?.terminate();
  }

  /** Tells all managers once of a failure, and once of its end. */
  #setState(error: Error | undefined): void {
    if (error === undefined && this.#error === undefined) return;
    const isNew = error === undefined || this.#error === undefined || error.message !== this.#error.message;
    this.#error = error;
    if (isNew) for (const share of this.#shares.values()) share.state(error);
  }
}

function unreachable(problem: string, cause?: unknown): UnreachableError {
  return new UnreachableError(problem, { waited: 0, server: 'the server from the worker of `renewIn`', cause });
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
