/** The promises of node-redlock 4: Bluebird's if the program has Bluebird, else the host's. */

import type Bluebird from 'bluebird';

import { UnsupportedError } from '../index.js';

/** What node-redlock 4 calls when a call has ended. Without an error, `error` is null. */
export type Callback<T> = (error: any, value?: T) => void;

/** Bluebird's promise, or the host's if the types of Bluebird are not installed. */
export type Answer<T> = 0 extends 1 & Bluebird<T> ? Promise<T> : Bluebird<T>;
/** What Bluebird's `using` takes. */
export type Disposer<T> = Bluebird.Disposer<T>;

/** Turns a promise into one for the caller, and calls the callback if there is one. Undefined: the program has no Bluebird. */
export class Promises {
  readonly #library: typeof Bluebird | undefined;

  constructor(library: typeof Bluebird | undefined) {
    this.#library = library;
  }

  answer<T>(work: Promise<T>, callback?: Callback<T>): Answer<T> {
    if (this.#library !== undefined) return this.#follow(this.#library, work).nodeify(callback) as Answer<T>;
    if (typeof callback === 'function') work.then((value) => (value === undefined ? callback(null) : callback(null, value)), callback).catch(throwLater);
    return work as Answer<T>;
  }

  /** Bluebird settles most promises one turn of the event loop later. It doesn't do so for one that gets a callback. */
  #follow<T>(library: typeof Bluebird, work: Promise<T>): Bluebird<T> {
    return library.fromCallback<T>((done) => {
      work.then((value) => done(null, value), (error) => {
        done(error);
        // Bluebird marks an error of a callback, and `error()` then catches it. It doesn't catch those of node-redlock.
        delete (error as { isOperational?: true }).isOperational;
      });
    });
  }

  /** Makes what Bluebird's `using` takes. Throws `unsupported` without Bluebird. */
  disposer<T>(take: () => Promise<T>, giveBack: (value: T) => Promise<void>): Disposer<T> {
    if (this.#library === undefined) throw new UnsupportedError('`disposer` without Bluebird, whose `using` needs it; install the package `bluebird`');
    return this.#follow(this.#library, take()).disposer((value) => giveBack(value));
  }
}

/** No promise can carry an error of a callback, so it is thrown as an uncaught exception. */
function throwLater(error: unknown): void {
  setTimeout(() => {
    throw error;
  });
}
