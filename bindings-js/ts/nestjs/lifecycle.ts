/** What the manager needs when an application starts and when it shuts down, and its place among the hooks of the other modules. */

import type { BeforeApplicationShutdown, OnApplicationBootstrap, OnApplicationShutdown, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import type { DiscoveryService, ModulesContainer } from '@nestjs/core';

import { type Closed, InvalidOptionError, type LockManager } from '../index.js';
import { Leaders } from './leader.js';
import { innerToken } from './tokens.js';

/** The checked options of a module. */
export interface LifecycleOptions {
  readonly locks: LockManager;
  /** In milliseconds. */
  readonly drain: number;
  readonly afterClose: ((closed: Closed) => unknown) | undefined;
}

/** Each step happens once. If it is called again, the result is that of the first call. */
export class Lifecycle implements OnModuleInit {
  readonly leaders: Leaders;
  readonly #options: LifecycleOptions;
  readonly #name: string | undefined;
  readonly #discovery: DiscoveryService;
  /** When running work must have ended, by `performance.now`. */
  #deadline = 0;
  #stopped: Promise<void> | undefined;
  #closing: Promise<Closed> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: LifecycleOptions, name: string | undefined, discovery: DiscoveryService) {
    this.leaders = new Leaders(options.locks, name);
    this.#options = options;
    this.#name = name;
    this.#discovery = discovery;
  }

  /** Refuses a second module with the same name. */
  onModuleInit(): void {
    const token = innerToken('lifecycle', this.#name);
    if (this.#discovery.getProviders().filter((provider) => provider.token === token).length === 1) return;
    throw new InvalidOptionError('name', `is ${this.#name ?? 'missing'} in two LeaseholdModules: give each of them a name of its own`);
  }

  start(): void {
    this.leaders.start(this.#discovery);
  }

  /** Resolves when the leaders' methods have ended and they have resigned, or when the time of the drain is over. */
  stop(): Promise<void> {
    this.#deadline ||= performance.now() + this.#options.drain;
    return (this.#stopped ??= within(this.#options.drain, this.leaders.stop()));
  }

  /** Begins the drain, which has the time that the leaders have left. Work that holds a lock finishes. Calls that wait for one fail. */
  drain(): void {
    if (this.#closing !== undefined) return;
    this.#closing = this.#options.locks.close({ drain: Math.max(0, Math.ceil(this.#deadline - performance.now())) });
    // `close` reports it.
    this.#closing.catch(() => {});
  }

  /** Resolves after the drain. */
  close(): Promise<void> {
    return (this.#closed ??= this.#end());
  }

  async #end(): Promise<void> {
    const closed = await this.#closing;
    if (closed !== undefined) await this.#options.afterClose?.(closed);
  }
}

/**
 * The hooks of one module. Nest calls the hooks of modules in the order of their distances from the root module: the greatest first
 * at the start and, in Nest 10, also at the shutdown. Newer ones begin a shutdown with the smallest. A global module has the greatest.
 *
 * Leaders must start last, when all that they use is there. They must stop first, and the locks must be released before another module
 * closes the connection. So there are hooks at both ends.
 */
export class Hooks implements OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown {
  readonly #lifecycle: Lifecycle;
  readonly #end: 'first' | 'last';

  /** `token` is the provider's own. It finds the module. */
  constructor(lifecycle: Lifecycle, end: 'first' | 'last', token: string, modules: ModulesContainer) {
    this.#lifecycle = lifecycle;
    this.#end = end;
    for (const module of modules.values()) {
      if (module.providers.has(token)) module.distance = end === 'first' ? Number.MAX_VALUE : -1;
    }
  }

  onApplicationBootstrap(): void {
    if (this.#end === 'last') this.#lifecycle.start();
  }

  /** Runs before providers close what the leaders use. */
  onModuleDestroy(): Promise<void> {
    return this.#lifecycle.stop();
  }

  /** Runs before Nest waits for the last requests. */
  beforeApplicationShutdown(): void {
    this.#lifecycle.drain();
  }

  /** Runs after the last request, and before other modules close the connection. */
  onApplicationShutdown(): Promise<void> {
    return this.#lifecycle.close();
  }
}

/** Resolves when the promise does, or after this time. */
async function within(ms: number, ended: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, ms)));
  await Promise.race([ended, late]);
  clearTimeout(timer);
}
