/** What all decorators share: the method that they are on, and the manager that Nest gives to its class. */

import { Inject } from '@nestjs/common';

import { InvalidOptionError, type LockManager } from '../index.js';
import { lockManagerToken } from './tokens.js';

export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** What the package `reflect-metadata` adds to `Reflect`. Nest loads it. */
interface Metadata {
  getMetadata(key: unknown, target: object): unknown;
  getOwnMetadataKeys(target: object): unknown[];
  defineMetadata(key: unknown, value: unknown, target: object): void;
}

export const metadata = Reflect as unknown as Metadata;

/** The method under a decorator. */
export function methodOf(decorator: string, target: object, property: string | symbol, descriptor: PropertyDescriptor | undefined): Method {
  const problem = typeof descriptor?.value !== 'function' ? 'needs a method, and `experimentalDecorators` in tsconfig.json' : typeof target === 'function' ? "can't be on a static method" : undefined;
  if (problem === undefined) return descriptor?.value as Method;
  throw new InvalidOptionError(decorator, `${problem}: see ${String(property)}`);
}

/**
 * Asks Nest to inject the manager of this module into each instance of the class. If there is no such module, the application doesn't
 * start, and Nest's error names the class. Returns the property that has the manager.
 */
export function injected(target: object, manager: string | undefined): symbol {
  const place = Symbol.for(manager === undefined ? 'leasehold.locks' : `leasehold.locks.${manager}`);
  Inject(lockManagerToken(manager))(target, place);
  return place;
}

/** The manager that Nest has injected into an instance. */
export function managerOf(self: unknown, place: symbol, label: string): LockManager {
  const locks = (self as Record<symbol, LockManager | undefined> | null | undefined)?.[place];
  if (locks !== undefined) return locks;
  throw new InvalidOptionError('this', `has no lock manager: call ${label} on an instance that Nest has made, as a method`);
}

/** Replaces a method. The new one has the same name, length and metadata, which Nest and other decorators read. */
export function replaceMethod(descriptor: PropertyDescriptor, method: Method, replacement: Method): void {
  for (const field of ['name', 'length']) {
    Object.defineProperty(replacement, field, Object.getOwnPropertyDescriptor(method, field) as PropertyDescriptor);
  }
  for (const key of metadata.getOwnMetadataKeys(method)) metadata.defineMetadata(key, metadata.getMetadata(key, method), replacement);
  descriptor.value = replacement;
}
