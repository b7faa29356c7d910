/** Which servers will do: Redis 6.2 and newer, Valkey 7.2 and newer. */

import type { CallResult, Failed, Failure, Link } from './connections/link.js';
import { setAlive } from './timer.js';

/** What is wrong with a server that tells this of itself, if anything is. One that does not tell is taken as it is. */
export function versionProblem(info: string): string | undefined {
  const field = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1];
  // Valkey gives a `redis_version` as well, which it never raises.
  const valkey = field('valkey_version');
  const [server, found, major, minor] = valkey === undefined ? ['Redis', field('redis_version'), 6, 2] : ['Valkey', valkey, 7, 2];
  const [, foundMajor, foundMinor] = /^(\d+)\.(\d+)/.exec(found ?? '')?.map(Number) ?? [];
  if (foundMajor === undefined || foundMinor === undefined) return undefined;
  if (foundMajor > major || (foundMajor === major && foundMinor >= minor)) return undefined;
  return `${server} ${found} is too old: leasehold needs ${server} ${major}.${minor} or newer`;
}

/** What a server that was asked had to say. */
export interface Asked {
  /** Why it can't be used. */
  readonly problem?: string | undefined;
  /** Why it did not tell. */
  readonly failed?: Failed | undefined;
}

/**
 * Asks a server for its version, once it is talked to.
 *
 * The question goes along with the first command, so it costs no round trip. That command's answer counts only once the
 * version is known. A server too old is left alone from then on, and asked again before the next command.
 */
export class VersionCheck {
  /** Whether there is nothing to ask any more. */
  passed = false;
  readonly #link: Link;
  readonly #patience: number;
  readonly #judge: (info: string) => string | undefined;
  readonly #mustTell: boolean;
  #asking: Promise<Asked> | undefined;
  #tooOld = false;

  /** A server that does not tell within so many milliseconds is taken as it is; where it is to be judged by more than its version it is asked again. */
  constructor(link: Link, patience: number, judge?: (info: string) => string | undefined) {
    this.#link = link;
    this.#patience = patience;
    this.#judge = judge ?? versionProblem;
    this.#mustTell = judge !== undefined;
  }

  /** Asks before anything else is sent. Whoever waits for a command's answer is kept alive by that; others have to say so. */
  ask(alive = false): Promise<Asked> {
    return (this.#asking ??= this.#ask(alive));
  }

  /** What `send` brings, or `unsupported`. */
  async guard(send: () => Promise<CallResult>): Promise<CallResult> {
    const ask = this.ask();
    const result = this.#tooOld ? undefined : send();
    const { problem } = await ask;
    if (problem === undefined) return result ?? send();
    // An answer of such a server is not waited for. It does not know the script yet, so that it is most likely NOSCRIPT.
    result?.catch(ignore);
    return { failure: { kind: 'unsupported', text: problem } };
  }

  async #ask(alive: boolean): Promise<Asked> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silent = new Promise<CallResult>((resolve) => {
      timer = setTimeout(resolve, this.#patience, SILENT);
      setAlive(timer, alive);
    });
    const asked = this.#link.call(['INFO', 'server']).catch((): CallResult => SILENT);
    const result = await Promise.race([asked, silent]);
    clearTimeout(timer);
    this.#asking = undefined;
    const problem = 'reply' in result ? this.#judge(textOf(result.reply)) : undefined;
    this.#tooOld = problem !== undefined;
    // Whoever was not reached has not told yet. A server that refuses to tell never will.
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
