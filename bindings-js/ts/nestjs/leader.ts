/** Methods that run while the process leads an election. */

import { Logger } from '@nestjs/common';
import { type DiscoveryService, MetadataScanner } from '@nestjs/core';

import { type Duration, type Election, type ElectionOptions, InvalidOptionError, isLeaseholdError, type LockManager, type Term } from '../index.js';
import { injected, metadata, type Method, methodOf } from './methods.js';

/** The options of {@link Leader}. */
export interface LeaderOptions extends ElectionOptions {
  /** The name of the module whose manager takes part. By default, it is the module without a name. */
  readonly manager?: string | undefined;
}

/** The metadata of a method with {@link Leader}. */
const LEADER = 'leasehold:leader';
/** How long a candidate stays out of the election after its method has returned or failed. */
const PAUSE_MS = 5_000;

/** The election of a method with {@link Leader}. */
interface LeaderMethod {
  readonly name: string;
  readonly options: LeaderOptions;
}

/**
 * Runs the method while this process leads the election. Each process becomes a candidate after all `onApplicationBootstrap` hooks.
 * The method gets a `Term`. It must end when `term.signal` aborts: then the term is lost, or the application shuts down. If it returns
 * earlier, this process resigns, and campaigns again after five seconds. A method that only has to know that it leads should wait for
 * the signal.
 *
 * An error of the method, or of the campaign, goes to Nest's logger. The process then campaigns again after five seconds, too.
 *
 * The class must be a provider or a controller that is neither request-scoped nor transient. A method that overrides this one needs
 * the decorator, too. The application doesn't start if two of its methods lead the same election, or if it has no
 * {@link LeaseholdModule}.
 *
 * @example
 * ```ts
 * @Leader('scheduler', { value: hostname() })
 * async schedule(term: Term): Promise<void> {
 *   for (;;) {
 *     await this.jobs.startDue(term.fence);
 *     await sleep(1_000, undefined, { signal: term.signal });
 *   }
 * }
 * ```
 */
export function Leader(name: string, options: LeaderOptions = {}) {
  return <Work extends (term: Term) => unknown>(target: object, property: string, descriptor: TypedPropertyDescriptor<Work>): void => {
    const method = methodOf('@Leader', target, property, descriptor);
    injected(target, options.manager);
    metadata.defineMetadata(LEADER, { name, options } satisfies LeaderMethod, method);
  };
}

/** The candidates of one module's manager. */
export class Leaders {
  readonly #locks: LockManager;
  readonly #manager: string | undefined;
  readonly #logger = new Logger('Leasehold');
  readonly #elections = new Map<string, Election>();
  readonly #stopping = new AbortController();
  #campaigns: readonly Promise<void>[] = [];

  constructor(locks: LockManager, manager: string | undefined) {
    this.#locks = locks;
    this.#manager = manager;
  }

  /** Starts a candidate for each method with {@link Leader} that belongs to this manager. If one of them can't start, none does. */
  start(discovery: DiscoveryService): void {
    const instances = new Set<unknown>();
    const candidates = [...discovery.getProviders(), ...discovery.getControllers()].flatMap((wrapper) => {
      // An alias, or a factory that returns another provider.
      if (wrapper.isAlias || instances.has(wrapper.instance)) return [];
      instances.add(wrapper.instance);
      return this.#candidatesOf(wrapper);
    });
    this.#campaigns = candidates.map((begin) => begin());
  }

  /** The candidates of one class. */
  #candidatesOf(wrapper: ReturnType<DiscoveryService['getProviders']>[number]): (() => Promise<void>)[] {
    const { instance } = wrapper as { instance: object | null | undefined };
    if (typeof instance !== 'object' || instance === null) return [];
    const prototype = (Object.getPrototypeOf(instance) ?? {}) as Record<string, Method>;
    return new MetadataScanner().getAllMethodNames(prototype).flatMap((property) => {
      const method = prototype[property];
      const found = leaderOf(method);
      if (found === undefined || found.options.manager !== this.#manager) return [];
      const label = `${wrapper.name}.${property}`;
      const { name, options: { manager: _, ...options } } = found;
      const problem = wrapper.isTransient
        ? "can't be in a transient class"
        : wrapper.isDependencyTreeStatic() ? this.#elections.has(name) && `can't lead '${name}' twice in one application` : "can't be in a request-scoped class";
      if (problem) throw new InvalidOptionError('@Leader', `${problem}: see ${label}`);
      const election = this.#locks.election(name, options);
      this.#elections.set(name, election);
      return [() => this.#campaign(label, election, (term) => method?.call(instance, term))];
    });
  }

  async #campaign(label: string, election: Election, work: (term: Term) => unknown): Promise<void> {
    const { signal } = this.#stopping;
    const returned = new Error('the method has returned');
    let warned = false;
    const oneTerm = async (term: Term): Promise<void> => {
      await work(term);
      if (term.signal.aborted) return;
      // Not after a `resign`.
      if (term.isLeader && !warned) this.#logger.warn(`${label} returned while it led '${election.name}', so this process resigns, and campaigns again in 5 s. To lead on, wait for \`term.signal\``);
      warned = true;
      throw returned;
    };
    while (!signal.aborted) {
      try {
        await election.lead(oneTerm, { signal });
      } catch (error) {
        if (error === signal.reason || isLeaseholdError(error, 'closed')) return;
        if (error !== returned) this.#logger.error(`${label} leads '${election.name}' no more, and campaigns again in 5 s`, error instanceof Error ? error.stack : String(error));
      }
      await pause(PAUSE_MS, signal);
    }
  }

  /** Ends all terms and campaigns. Resolves when the methods have ended and the terms are resigned. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#campaigns);
  }

  /** The elections whose term was lost longer than `grace` ago, while the method still runs. */
  unhealthy(grace: Duration): string[] {
    return [...this.#elections.values()].filter((election) => !election.isHealthy(grace)).map(({ name }) => name);
  }
}

function leaderOf(method: Method | undefined): LeaderMethod | undefined {
  return typeof method === 'function' ? (metadata.getMetadata(LEADER, method) as LeaderMethod | undefined) : undefined;
}

/** Resolves after a time, or when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(end, ms);
    function end(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    }
    signal.addEventListener('abort', end);
  });
}
