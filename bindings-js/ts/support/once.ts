/** Something that happens only once, though it calls the user's code, which may ask for it again. */

export class Once<T> {
  #began = false;
  #result: Promise<T> | undefined;

  /** Runs `act` at the first call. All calls get its result, also those that come before `act` has returned. */
  run(act: () => Promise<T>): Promise<T> {
    if (this.#began) return this.#result ?? Promise.resolve().then(() => this.#result as Promise<T>);
    this.#began = true;
    this.#result = act();
    return this.#result;
  }
}
