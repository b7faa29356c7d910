/** The module: it provides the lock manager, runs the leaders, and closes the manager with the application. */

import {
  type BeforeApplicationShutdown, type DynamicModule, type FactoryProvider, Module, type ModuleMetadata, type OnApplicationBootstrap, type OnApplicationShutdown,
  type OnModuleDestroy, type OnModuleInit,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService } from '@nestjs/core';

import { type Closed, type Duration, InvalidOptionError, LockManager } from '../index.js';
import { LockHealth, lockHealthToken } from './health.js';
import { Leaders } from './leader.js';
import { innerToken, lockManagerToken } from './tokens.js';

/** The options of {@link LeaseholdModule.forRoot}, without the name. */
interface Settings {
  /** The manager. The module closes it. */
  readonly locks: LockManager;
  /** How long running work may take when the application shuts down: 0 ms to 30 days. Default: `'25s'`. */
  readonly drain?: Duration | undefined;
  /** Is called after the manager has closed. End the connection here, if nothing else in the application uses it. */
  readonly afterClose?: ((closed: Closed) => unknown) | undefined;
}

/** The options of {@link LeaseholdModule.forRoot}. */
export interface LeaseholdModuleOptions extends Settings {
  /** Tells several modules in one application apart, for example for two servers. One module needs no name. */
  readonly name?: string | undefined;
}

/** The options of {@link LeaseholdModule.forRootAsync}. */
export interface LeaseholdModuleAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  /** The same as in {@link LeaseholdModuleOptions}. */
  readonly name?: string | undefined;
  /** What `useFactory` gets. */
  readonly inject?: FactoryProvider['inject'];
  /** Makes the other options. */
  readonly useFactory: (...args: any[]) => Settings | Promise<Settings>;
}

/** A number in each module, because Nest 10 takes equal modules for one. */
let count = 0;

/**
 * Provides a `LockManager` and its {@link LockHealth} to the whole application. It is a global module.
 *
 * When the application shuts down, leaders resign, new and waiting acquires fail with `closed`, running work has the time `drain` to
 * finish, and then the manager closes. The drain begins before Nest waits for the last requests. A signal such as SIGTERM needs
 * `app.enableShutdownHooks()`.
 *
 * @example
 * ```ts
 * @Module({
 *   imports: [
 *     LeaseholdModule.forRootAsync({
 *       inject: [Redis],
 *       useFactory: (redis: Redis) => ({ locks: new LockManager(redis) }),
 *     }),
 *   ],
 * })
 * class AppModule {}
 * ```
 */
export class LeaseholdModule {
  /** A module with a manager that exists already. The application doesn't start if two modules have the same name, or both none. */
  static forRoot(options: LeaseholdModuleOptions): DynamicModule {
    return moduleOf(options.name, { useFactory: () => options });
  }

  /** A module whose manager needs other providers, or a promise, as `LockManager.quorum` does. */
  static forRootAsync({ name, imports = [], inject = [], useFactory }: LeaseholdModuleAsyncOptions): DynamicModule {
    return moduleOf(name, { useFactory, inject }, imports);
  }
}

Module({})(LeaseholdModule);

function moduleOf(name: string | undefined, factory: Pick<FactoryProvider, 'useFactory' | 'inject'>, imports: ModuleMetadata['imports'] = []): DynamicModule {
  const [options, lifecycle, locks, health] = [innerToken('options', name), innerToken('lifecycle', name), lockManagerToken(name), lockHealthToken(name)];
  return {
    module: LeaseholdModule,
    global: true,
    imports: [DiscoveryModule, ...imports],
    providers: [
      { provide: `leasehold:module:${count++}`, useValue: true },
      { provide: options, ...factory },
      { provide: locks, useFactory: (given: Settings) => checked(given), inject: [options] },
      { provide: lifecycle, useFactory: (given: Settings, discovery: DiscoveryService) => new Lifecycle(given, name, discovery), inject: [options, DiscoveryService] },
      { provide: health, useFactory: (manager: LockManager, { leaders }: Lifecycle) => new LockHealth(manager, leaders), inject: [locks, lifecycle] },
    ],
    exports: [locks, health],
  };
}

function checked({ locks }: Settings): LockManager {
  if (locks instanceof LockManager) return locks;
  throw new InvalidOptionError('locks', 'is not a LockManager: give `new LockManager(redis)`');
}

/** Does what the manager needs when the application starts and when it shuts down. */
class Lifecycle implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown {
  readonly leaders: Leaders;
  readonly #settings: Settings;
  readonly #name: string | undefined;
  readonly #discovery: DiscoveryService;
  #closing: Promise<Closed> | undefined;

  constructor(settings: Settings, name: string | undefined, discovery: DiscoveryService) {
    this.leaders = new Leaders(settings.locks, name);
    this.#settings = settings;
    this.#name = name;
    this.#discovery = discovery;
  }

  onModuleInit(): void {
    const token = innerToken('lifecycle', this.#name);
    if (this.#discovery.getProviders().filter((provider) => provider.token === token).length === 1) return;
    throw new InvalidOptionError('name', `is ${this.#name ?? 'missing'} in two LeaseholdModules: give each of them a name of its own`);
  }

  onApplicationBootstrap(): void {
    this.leaders.start(this.#discovery);
  }

  /** Runs before providers close what the leaders use. */
  onModuleDestroy(): void {
    this.leaders.stop();
  }

  /** Runs before Nest waits for the last requests. Those that hold a lock finish. Those that wait for one fail. */
  beforeApplicationShutdown(): void {
    this.#closing = this.#settings.locks.close({ drain: this.#settings.drain ?? '25s' });
    // `onApplicationShutdown` reports it.
    this.#closing.catch(() => {});
  }

  /** Runs after the last request. */
  async onApplicationShutdown(): Promise<void> {
    const closed = await this.#closing;
    if (closed !== undefined) await this.#settings.afterClose?.(closed);
  }
}
