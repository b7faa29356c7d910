/** Checks the server's version: Redis 6.2 or newer, Valkey 7.2 or newer. */

import type { CallResult, Failed, Failure, Link } from '../connections/index.js';
import { setTimerAlive } from '../support/host.js';

/** What is wrong with a server's version, by its answer to `INFO server`. An answer without a version is accepted. */
export function versionProblem(info: string): string | undefined {
  const field = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1];
  // Valkey also has a `redis_version`, which always stays the same.
  const valkey = field('valkey_version');
  const [server, found, major, minor] = valkey === undefined ? ['Redis', field('redis_version'), 6, 2] : ['Valkey', valkey, 7, 2];
  const [, foundMajor, foundMinor] = /^(\d+)\.(\d+)/.exec(found ?? '')?.map(Number) ?? [];
  if (foundMajor === undefined || foundMinor === undefined) return undefined;
  if (foundMajor > major || (foundMajor === major && foundMinor >= minor)) return undefined;
  return `${server} ${found} is too old: leasehold needs ${server} ${major}.${minor} or newer`;
}

/** A server's answer to the version check. */
export interface VersionCheckResult {
  /** Why the server can't be used. */
  readonly problem?: string | undefined;
  /** Why the server did not answer. */
  readonly failed?: Failed | undefined;
}

/**
 * Asks a server for its version, together with the first command.
 *
 * So the question costs no round trip. The answer to that command counts only once the version is known. A server that is too
 * old gets no more commands until a later check passes; each command asks it again.
 */
export class VersionCheck {
  /** Whether the check is done. */
  passed = false;
  readonly #link: Link;
  readonly #patience: number;
  readonly #judge: (info: string) => string | undefined;
  readonly #mustTell: boolean;
  #asking: Promise<VersionCheckResult> | undefined;
  #tooOld = false;

  /**
   * A server that does not answer within `patience` ms is accepted. With a `judge` of its own, the server must answer, and is
   * asked again.
   */
  constructor(link: Link, patience: number, judge?: (info: string) => string | undefined) {
    this.#link = link;
    this.#patience = patience;
    this.#judge = judge ?? versionProblem;
    this.#mustTell = judge !== undefined;
  }

  /** Asks the server. `alive` keeps the process alive meanwhile; a command that waits for its answer does that already. */
  ask(alive = false): Promise<VersionCheckResult> {
    return (this.#asking ??= this.#ask(alive));
  }

  /** Resolves to the result of `send`, or to `unsupported`. */
  async guard(send: () => Promise<CallResult>): Promise<CallResult> {
    const ask = this.ask();
    const result = this.#tooOld ? undefined : send();
    const { problem } = await ask;
    if (problem === undefined) return result ?? send();
    // Don't wait for this server's answer. It is most likely NOSCRIPT, because the server does not have the script yet.
    result?.catch(ignore);
    return { failure: { kind: 'unsupported', text: problem } };
  }

  async #ask(alive: boolean): Promise<VersionCheckResult> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silent = new Promise<CallResult>((resolve) => {
      timer = setTimeout(resolve, this.#patience, SILENT);
      setTimerAlive(timer, alive);
    });
    const asked = this.#link.call(['INFO', 'server']).catch((): CallResult => SILENT);
    const result = await Promise.race([asked, silent]);
    clearTimeout(timer);
    this.#asking = undefined;
    const problem = 'reply' in result ? this.#judge(textOf(result.reply)) : undefined;
    this.#tooOld = problem !== undefined;
    // A server that was not reached may still answer later. One that refuses the question never will.
    this.passed = 'reply' in result ? !this.#tooOld : this.#neverTells(result.failure.kind);
    return { problem, failed: 'failure' in result ? result : undefined };
  }

  #neverTells(failure: Failure['kind']): boolean {
    return failure === 'timed-out' ? !this.#mustTell : failure === 'refused' || failure === 'unsupported';
  }
}

const SILENT: Failed = { failure: { kind: 'timed-out' } };
const decoder = new TextDecoder();

function textOf(reply: unknown): string {
  if (reply instanceof Uint8Array) return decoder.decode(reply);
  return typeof reply === 'string' ? reply : '';
}

function ignore(): void {}
