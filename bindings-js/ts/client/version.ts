/** Checks the server's version: Redis 6.2 or newer, Valkey 7.2 or newer. */

import { type CallResult, type Failed, type Failure, type Link, timeOf } from '../connections/index.js';
import { setTimerRef } from '../support/host.js';
import { ignore } from '../support/ignore.js';
import type { Timer } from '../support/timers.js';
import { KEYDB, REFUSED_SERVERS } from './servers.generated.js';
import { isCrossSlot, PROBE, type ProbeProblem, type SlotsCheck } from './slots.js';
import { textOf } from './text.js';

/** What is wrong with a server or its version, from its reply to `INFO server`. A reply without a version is accepted. */
export function versionProblem(info: string): string | undefined {
  const lines = info.split('\n');
  for (const [begin, before, after] of REFUSED_SERVERS) {
    const line = lines.find((line) => line.startsWith(begin));
    if (line !== undefined) return before + line.slice(begin.length).trim() + after;
  }
  const { server, found, isAtLeast } = serverOf(info);
  const [major, minor] = server === 'Redis' ? [6, 2] : [7, 2];
  if (isAtLeast(major, minor) !== false) return undefined;
  return `${server} ${found} is too old: leasehold needs ${server} ${major}.${minor} or newer`;
}

/** The command with which a server can delete a key by its value, from its reply to `INFO server`. */
export function deleteIfEqualOf(info: string): 'DELIFEQ' | 'DELEX' | undefined {
  const { server, isAtLeast } = serverOf(info);
  if (server === 'Valkey') return isAtLeast(9, 0) === true ? 'DELIFEQ' : undefined;
  return isAtLeast(8, 4) === true ? 'DELEX' : undefined;
}

interface FoundServer {
  readonly server: 'Redis' | 'Valkey';
  readonly found: string | undefined;
  /** Undefined if the version is unknown. */
  isAtLeast(major: number, minor: number): boolean | undefined;
}

function serverOf(info: string): FoundServer {
  const field = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\\s*$`, 'm').exec(info)?.[1];
  // Valkey also has a `redis_version`, which always stays the same.
  const valkey = field('valkey_version');
  const found = valkey ?? field('redis_version');
  const [, foundMajor, foundMinor] = /^(\d+)\.(\d+)/.exec(found ?? '')?.map(Number) ?? [];
  const isAtLeast = (major: number, minor: number): boolean | undefined => {
    if (foundMajor === undefined || foundMinor === undefined) return undefined;
    return foundMajor > major || (foundMajor === major && foundMinor >= minor);
  };
  return { server: valkey === undefined ? 'Redis' : 'Valkey', found, isAtLeast };
}

/** After how many questions that broke the connection, or had no answer, a command is sent without one. */
const MOST_BROKEN = 3;

/** How a server answered the version check. */
export interface VersionCheckResult {
  /** Why the server can't be used. */
  readonly problem?: string | undefined;
  /** The same, if the answer about slots and the clock says so. */
  readonly wrong?: ProbeProblem | undefined;
  /** Why there was no reply. */
  readonly failed?: Failed | undefined;
}

/**
 * Asks a server for its version and whether it enforces slots, together with the first command.
 *
 * So the check costs no round trip. The reply to that command counts only once the version is known. A server that is too old
 * gets no more commands until a later check passes. Each command checks it again.
 *
 * A proxy may close the connection when it sees `INFO`, and the command is lost with it. So after a few broken connections, the
 * manager sends the command without `INFO`, and `INFO` after the reply. A server that replies to the command and not to `INFO` is
 * accepted. After a few more broken connections, the manager doesn't ask about slots either: nor if a server
 * that replies never answers that question.
 */
export class VersionCheck {
  /** Whether the check is done. */
  passed = false;
  /** Called with the reply to `INFO server` of a server that passes. */
  onPassed: (info: string) => void = ignore;
  readonly #link: Link;
  readonly #timeout: number;
  readonly #problemOf: (info: string) => string | undefined;
  readonly #mustReply: boolean;
  readonly slots: SlotsCheck;
  #checking: Promise<VersionCheckResult> | undefined;
  #isRefused = false;
  /** How many questions broke the connection, or had no answer about slots in time. */
  #broken = 0;
  /** Whether the server has replied. One that has not may be down for a while. */
  #hasReplied = false;

  /**
   * A server that does not reply within `timeout` ms is accepted. With a `problemOf`, the server must reply, and is asked again.
   */
  constructor(link: Link, timeout: number, problemOf: ((info: string) => string | undefined) | undefined, slots: SlotsCheck) {
    this.#link = link;
    this.slots = slots;
    this.#timeout = timeout;
    this.#problemOf = problemOf ?? versionProblem;
    this.#mustReply = problemOf !== undefined;
  }

  /** Asks the server. With `keepAlive`, the process stays alive meanwhile. A command that waits for its reply does that already. */
  check({ keepAlive = false } = {}): Promise<VersionCheckResult> {
    return (this.#checking ??= this.#check(keepAlive));
  }

  /** Resolves to the result of `send`, or to `unsupported`. */
  async guard(send: () => Promise<CallResult>): Promise<CallResult> {
    if (this.#broken >= MOST_BROKEN && !this.#isRefused && !this.#mustReply) return this.#guardAfter(send);
    const check = this.check();
    const result = this.#isRefused || this.slots.isRequired ? undefined : send();
    const { problem, wrong } = await check;
    if (problem === undefined) return this.#withSlots(result, send);
    // Don't wait for this server's reply. It is most likely NOSCRIPT, because the server does not have the script yet.
    result?.catch(ignore);
    return refuse(problem, wrong);
  }

  /** Sends the command before the question for the version. */
  async #guardAfter(send: () => Promise<CallResult>): Promise<CallResult> {
    const { slots } = this;
    if (slots.isOpen && this.#broken >= 2 * MOST_BROKEN) slots.giveUp();
    const asking = slots.isOpen ? this.#answer(this.#askForSlots(), true, this.#timeout / 2) : undefined;
    const sent = slots.isRequired ? undefined : send();
    if (asking !== undefined) {
      const answer = await asking;
      this.#count(undefined, answer);
      const wrong = slots.decide(answer);
      if (wrong !== undefined) {
        sent?.catch(ignore);
        return refuse(wrong.text, wrong);
      }
    }
    const result = await this.#withSlots(sent, send);
    if (this.passed || ('failure' in result && result.failure.kind !== 'refused')) return result;
    const { problem, wrong, failed } = await this.check();
    if (problem !== undefined) return refuse(problem, wrong);
    if (failed !== undefined) this.passed = !slots.isOpen;
    return result;
  }

  /**
   * The result of a command that was sent before it was known whether the server enforces slots. If the server does, it has
   * refused the command for its keys and run nothing. The engine then sends it again with other keys, as after `NOSCRIPT`.
   * If the server must say that it enforces slots, nothing is sent before that: a lock that was granted would not be given back.
   */
  async #withSlots(sent: Promise<CallResult> | undefined, send: () => Promise<CallResult>): Promise<CallResult> {
    if (sent === undefined && this.slots.isRequired) return { failure: { kind: 'unavailable', text: 'the server has not said whether it enforces slots' } };
    const result = await (sent ?? send());
    this.#hear(result);
    return this.slots.enforced === true && isCrossSlot(result) ? NO_SCRIPT : result;
  }

  async #check(keepAlive: boolean): Promise<VersionCheckResult> {
    const telling = this.#answer(this.#ask(), keepAlive);
    const asking = this.slots.isOpen && this.#broken < MOST_BROKEN ? this.#answer(this.#askForSlots(), keepAlive, this.#timeout / 2) : undefined;
    const [result, answer] = [await telling, await asking];
    this.#checking = undefined;
    const wrong = answer && this.slots.decide(answer);
    const problem = ('reply' in result ? this.#problemOf(textOf(result.reply)) : undefined) ?? wrong?.text;
    this.#isRefused = problem !== undefined;
    this.#hear(result);
    this.#count(result, answer);
    // A server that was not reached may still reply later. One that refuses `INFO` never will.
    this.passed = ('reply' in result ? !this.#isRefused : this.#isFinal(result.failure.kind)) && !this.slots.isOpen;
    if (this.passed && 'reply' in result) this.onPassed(textOf(result.reply));
    return { problem, wrong, failed: 'failure' in result ? result : undefined };
  }

  /** Counts the questions that broke the connection, or had no answer about slots. Those that went together are one. */
  #count(info: CallResult | undefined, slots: CallResult | undefined): void {
    const isBroken = isFailure(info, 'interrupted') || isFailure(slots, 'interrupted');
    if (isBroken || (this.#hasReplied && isFailure(slots, 'timed-out'))) this.#broken += 1;
  }

  #hear(result: CallResult): void {
    if ('reply' in result || result.failure.kind === 'refused') this.#hasReplied = true;
  }

  /** The answer to a question, in time. The one about slots has half of the time, so that a command that waits for it is still in time. */
  async #answer(asked: Promise<CallResult>, keepAlive: boolean, within = this.#timeout): Promise<CallResult> {
    const time = timeOf(this.#link);
    let timer: Timer | undefined;
    const timeout = new Promise<CallResult>((resolve) => {
      timer = time.setTimeout(() => resolve(TIMED_OUT), within);
      setTimerRef(timer, keepAlive ? 'ref' : 'unref');
    });
    const result = await Promise.race([asked.catch((): CallResult => TIMED_OUT), timeout]);
    time.clearTimeout(timer);
    return result;
  }

  /**
   * The reply to `INFO server`. For KeyDB, also the section that shows an active replica. If the connection is one of a quorum
   * and leads to a cluster, also its nodes.
   */
  async #ask(): Promise<CallResult> {
    const isMember = this.#mustReply && this.#link.isCluster === true;
    const [info, nodes] = await Promise.all([this.#link.call(['INFO', 'server']), isMember ? this.#link.call(['CLUSTER', 'NODES']) : undefined]);
    if ('reply' in info && textOf(info.reply).includes(`\n${KEYDB}`)) {
      const role = await this.#link.call(['INFO', 'replication']);
      return 'reply' in role ? { reply: `${textOf(info.reply)}\n${textOf(role.reply)}` } : role;
    }
    if (nodes === undefined || 'failure' in info) return info;
    if ('reply' in nodes) return { reply: `${textOf(info.reply)}\n${textOf(nodes.reply)}` };
    return this.#isFinal(nodes.failure.kind) ? info : nodes;
  }

  async #askForSlots(): Promise<CallResult> {
    return this.#link.call(PROBE);
  }

  #isFinal(failure: Failure['kind']): boolean {
    return failure === 'timed-out' ? !this.#mustReply : failure === 'refused' || failure === 'unsupported';
  }
}

function isFailure(result: CallResult | undefined, kind: Failure['kind']): boolean {
  return result !== undefined && 'failure' in result && result.failure.kind === kind;
}

function refuse(problem: string, wrong: ProbeProblem | undefined): Failed {
  return { failure: { kind: wrong?.isRefusal === true ? 'refused' : 'unsupported', text: problem }, cause: wrong?.invalid };
}

const NO_SCRIPT: Failed = { failure: { kind: 'refused', text: 'NOSCRIPT the keys are in different slots' } };

const TIMED_OUT: Failed = { failure: { kind: 'timed-out' } };
