/** Names of locks that depend on the arguments of a method. */

import { InvalidOptionError } from '../index.js';

/**
 * The name of the lock of a method with {@link Locked} or {@link Once}. In a string, `{0}` stands for the first argument, and `{1.id}`
 * or `{1.user-id}` for a field of the second one. These must be strings, numbers or bigints: a name with `undefined` would be one
 * lock for all calls.
 * A function gets the arguments of the call, and the instance as `this`. If it throws, the call rejects with its error.
 */
export type LockKey<Args extends unknown[], Name = string> = string | ((this: any, ...args: Args) => Name);

/** A decorator for an async method whose first arguments are these. */
export type LockedMethod<Args extends unknown[]> = <Method extends (...args: [...Args, ...any[]]) => Promise<unknown>>(
  target: object, property: string | symbol, descriptor: TypedPropertyDescriptor<Method>,
) => void;

/** An argument by its place, and fields of it. A hash tag such as `{user}` is a part of the name. */
const PLACE = /\{(\d+)((?:\.[^.{}[\]\s]+)*)\}/g;
/** What looks like a place. */
const ATTEMPT = /\{\s*\d[^{}]*\}?/g;

/** Refuses a key that can't be one, when the class is defined. A wrong place would be one lock for all calls. */
export function checkKey(decorator: string, key: unknown): void {
  if (typeof key === 'function') return;
  if (typeof key !== 'string') throw new InvalidOptionError('key', `of ${decorator} must be a string or a function`);
  const [wrong] = key.replace(PLACE, '').match(ATTEMPT) ?? [];
  if (wrong !== undefined) throw new InvalidOptionError('key', `'${key}' of ${decorator} has ${wrong}: write {0} for the first argument or {0.id} for its field, or give a function`);
}

/** The name for one call. */
export function nameFor<Name>(key: LockKey<any[], Name>, self: unknown, args: unknown[]): Name | string {
  if (typeof key === 'function') return key.apply(self, args);
  return key.replace(PLACE, (place, index: string, path: string) => {
    let value = args[Number(index)];
    for (const field of path.split('.').slice(1)) value = (value as Record<string, unknown> | null | undefined)?.[field];
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') return String(value);
    const type = value === null ? 'null' : typeof value;
    throw new InvalidOptionError('key', `'${key}' can't be filled in: ${place} is ${type}, but must be a string, a number or a bigint`);
  });
}
