import { setAlive } from '../client/timer.js';

/** How long a command waits for a client that is connecting. Shorter than the default response timeout, so that the engine can retry. */
const PATIENCE_MS = 1000;

/**
 * Commands that wait until their client is connected.
 *
 * They don't wait in the library's own queue. From there, a command may be sent minutes later, after the engine has given up the
 * command's token and the server has forgotten that.
 */
export class Hold {
  readonly #waiting = new Set<(connected: boolean) => void>();

  /** Resolves to true once the client is connected, and to false if that takes too long or can't happen any more. */
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
