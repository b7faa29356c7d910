import { setAlive } from '../timer.js';

/** How long a command waits for a client that is connecting. Shorter than a command's own time, so that the engine can ask again. */
const PATIENCE_MS = 1000;

/**
 * Commands that wait until their client is connected.
 *
 * They wait here and not in the library's own queue: from there a command may leave minutes later, after the engine has
 * given up its token and the server has forgotten that.
 */
export class Hold {
  readonly #waiting = new Set<(connected: boolean) => void>();

  /** True once the client is connected, false if that takes too long or will never be. */
  wait(): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (connected: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(end);
        resolve(connected);
      };
      const timer = setTimeout(end, PATIENCE_MS, false);
      // A pending call keeps the process alive by itself.
      setAlive(timer, false);
      this.#waiting.add(end);
    });
  }

  end(connected: boolean): void {
    for (const end of [...this.#waiting]) end(connected);
  }
}
