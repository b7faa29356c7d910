/** The module: it provides the lock manager, runs the leaders, and closes the manager with the application. */

import { type DynamicModule, type FactoryProvider, Module, type ModuleMetadata, type Provider } from '@nestjs/common';
import { DiscoveryModule, DiscoveryService, ModulesContainer } from '@nestjs/core';

import { type Closed, type Duration, InvalidOptionError, LockManager, parseDuration } from '../index.js';
import { BOUNDS } from '../support/options.generated.js';
import { LockHealth, lockHealthToken } from './health.js';
import { Hooks, Lifecycle, type LifecycleOptions } from './lifecycle.js';
import { innerToken, lockManagerToken } from './tokens.js';

/** The options of {@link LeaseholdModule.forRoot}, without the name. */
interface Settings {
  /** The manager. The module closes it. */
  readonly locks: LockManager;
  /** How long running work may take when the application shuts down: 0 ms to 30 days. Default: `'25s'`. */
  readonly drain?: Duration | undefined;
  /** Is called after the manager has closed. End the connection here, if no module does it in `onApplicationShutdown`. */
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
 * finish, and then the manager closes. The drain begins before Nest waits for the last requests. It ends before other modules'
 * `onApplicationShutdown` hooks: close there what running work uses, such as the connection. A signal such as SIGTERM needs
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

/** Has the hooks that Nest calls last at the start and, from Nest 11 on, first at a shutdown. */
class LeaseholdHooks {}

Module({})(LeaseholdHooks);

function moduleOf(name: string | undefined, factory: Pick<FactoryProvider, 'useFactory' | 'inject'>, imports: ModuleMetadata['imports'] = []): DynamicModule {
  const [given, options, lifecycle] = [innerToken('given', name), innerToken('options', name), innerToken('lifecycle', name)];
  const [locks, health] = [lockManagerToken(name), lockHealthToken(name)];
  const own = { provide: `leasehold:module:${count++}`, useValue: true };
  return {
    module: LeaseholdModule,
    global: true,
    imports: [DiscoveryModule, { module: LeaseholdHooks, providers: [own, hooks('last', name)] }, ...imports],
    providers: [
      own,
      { provide: given, ...factory },
      { provide: options, useFactory: checked, inject: [given] },
      { provide: locks, useFactory: (read: LifecycleOptions) => read.locks, inject: [options] },
      { provide: lifecycle, useFactory: (read: LifecycleOptions, discovery: DiscoveryService) => new Lifecycle(read, name, discovery), inject: [options, DiscoveryService] },
      { provide: health, useFactory: (manager: LockManager, { leaders }: Lifecycle) => new LockHealth(manager, leaders), inject: [locks, lifecycle] },
      hooks('first', name),
    ],
    exports: [locks, health, lifecycle],
  };
}

function hooks(end: 'first' | 'last', name: string | undefined): Provider {
  const token = innerToken(end, name);
  return {
    provide: token,
    useFactory: (lifecycle: Lifecycle, modules: ModulesContainer) => new Hooks(lifecycle, end, token, modules),
    inject: [innerToken('lifecycle', name), ModulesContainer],
  };
}

function checked({ locks, drain = '25s', afterClose }: Settings): LifecycleOptions {
  if (!(locks instanceof LockManager)) throw new InvalidOptionError('locks', 'is not a LockManager: give `new LockManager(redis)`');
  if (afterClose !== undefined && typeof afterClose !== 'function') throw new InvalidOptionError('afterClose', 'is not a function');
  const millis = parseDuration(drain, 'drain');
  const [least, most, bounds] = BOUNDS.drain;
  if (millis < least || millis > most) throw new InvalidOptionError('drain', `is ${millis} ms: choose ${bounds}`);
  return { locks, drain: millis, afterClose };
}
