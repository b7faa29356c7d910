/** Checks the server's version: Redis 6.2 or newer, Valkey 7.2 or newer. */

import { type CallResult, type Failed, type Failure, type Link, timeOf, unavailable } from '../connections/index.js';
import type { Command } from '../engine/index.js';
import { setTimerRef } from '../support/host.js';
import { ignore } from '../support/ignore.js';
import type { Timer } from '../support/timers.js';
import { describeFailure } from './engine-errors.js';
import { isNotReady, lacksLogin, refusesInfo } from './refusals.js';
import { KEYDB, REFUSED_SERVERS, SUPPORTED_SERVERS, TOO_OLD } from './servers.generated.js';
import { isCrossSlot, type ProbeProblem, type SlotsCheck } from './slots.js';
import { textOf } from './text.js';

/** What is wrong with a server or its version, from its reply to `INFO server`. A reply without a version is accepted. */
export function versionProblem(info: string): string | undefined {
  const lines = info.split('\n');
  for (const [begin, before, after] of REFUSED_SERVERS) {
    const line = lines.find((line) => line.startsWith(begin));
    if (line !== undefined) return before + line.slice(begin.length).trim() + after;
  }
  const known = serverOf(info);
  if (known === undefined) return undefined;
  const { name, oldest, found } = known;
  return isAtLeast(found, oldest) === false ? `${name} ${found}${TOO_OLD[0]}${name} ${oldest.join('.')}${TOO_OLD[1]}` : undefined;
}

/** The command with which a server can delete a key by its value, from its reply to `INFO server`. */
export function deleteIfEqualOf(info: string): 'DELIFEQ' | 'DELEX' | undefined {
  const known = serverOf(info);
  return known !== undefined && isAtLeast(known.found, known.deletes) === true ? known.command : undefined;
}

/** The server and its version. */
function serverOf(info: string): ((typeof SUPPORTED_SERVERS)[number] & { readonly found: string }) | undefined {
  const lines = info.split('\n');
  for (const server of SUPPORTED_SERVERS) {
    const line = lines.find((line) => line.startsWith(server.version));
    if (line !== undefined) return { ...server, found: line.slice(server.version.length).trim() };
  }
  return undefined;
}

/** Undefined if the version is unknown. */
function isAtLeast(found: string, [major, minor]: readonly [number, number]): boolean | undefined {
  const [, foundMajor, foundMinor] = /^(\d+)\.(\d+)/.exec(found)?.map(Number) ?? [];
  if (foundMajor === undefined || foundMinor === undefined) return undefined;
  return foundMajor > major || (foundMajor === major && foundMinor >= minor);
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

/** What the questions about slots have led to. */
interface SlotsResult {
  readonly wrong?: ProbeProblem | undefined;
  /** Whether the last question broke the connection, or had no answer in time. */
  readonly isBroken?: boolean;
}

/**
 * Asks a server for its version and whether it enforces slots, together with the first command.
 *
 * So the check costs no round trip. The reply to that command counts only once the version is known. A server that is too old
 * gets no more commands until a later check passes. Each command checks it again.
 *
 * A proxy may close the connection when it sees `INFO`, and the command is lost with it. So after a few broken connections, the
 * manager sends the command without `INFO`, and `INFO` after the reply. A server that replies to the command and not to `INFO` is
 * accepted. After a few more broken connections, or questions without an answer, the manager doesn't ask about slots either. But if
 * an option says that the server enforces slots, the server must confirm that.
 *
 * While a server is down, a load balancer also breaks each connection. So after the first broken question, a `PING` goes before the
 * next command and its questions. They are sent and counted only if the server answers that.
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
  // All commands that wait for an answer share the question.
  #pinging: Promise<Failed | undefined> | undefined;
  #checking: Promise<VersionCheckResult> | undefined;
  #askingForSlots: Promise<SlotsResult> | undefined;
  #isRefused = false;
  /** How many questions broke the connection, or had no answer about slots in time. Only those to a server that has replied count. */
  #broken = 0;
  /** Whether there was such a question, so that a `PING` goes first. */
  #isSuspect = false;
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

  /** Resolves to the result of `send`, or to `unsupported`. `command` is what it sends. */
  async guard(command: Command, send: () => Promise<CallResult>): Promise<CallResult> {
    const absence = this.#isSuspect ? await (this.#pinging ??= this.#absence()) : undefined;
    if (absence !== undefined) return absence;
    if (this.#broken >= MOST_BROKEN && !this.#isRefused && !this.#mustReply) return this.#guardAfter(command, send);
    const check = this.check();
    const sent = this.#isRefused || this.slots.isAwaited ? undefined : send();
    const { problem, wrong } = await check;
    if (problem === undefined) return this.#withSlots(command, sent, send);
    // Don't wait for this server's reply. It is most likely NOSCRIPT, because the server does not have the script yet.
    sent?.catch(ignore);
    return refuse(problem, wrong);
  }

  /** Sends the command before the question for the version. */
  async #guardAfter(command: Command, send: () => Promise<CallResult>): Promise<CallResult> {
    const { slots } = this;
    if (slots.isOpen && this.#broken >= 2 * MOST_BROKEN) slots.giveUp();
    const asking = slots.isOpen ? this.#askForSlotsAlone() : undefined;
    const sent = slots.isAwaited ? undefined : send();
    if (asking !== undefined) {
      const { wrong } = await asking;
      if (wrong !== undefined) {
        sent?.catch(ignore);
        return refuse(wrong.text, wrong);
      }
    }
    const result = await this.#withSlots(command, sent, send);
    if (this.passed || ('failure' in result && result.failure.kind !== 'refused')) return result;
    const { problem, wrong, failed } = await this.check();
    if (problem !== undefined) return refuse(problem, wrong);
    if (failed !== undefined) this.passed = !slots.isOpen;
    return result;
  }

  /**
   * The result of a command that was sent before it was known whether the server enforces slots. If the server does, it has
   * refused the command for its keys and run nothing. The engine then sends it again with other keys, as after `NOSCRIPT`.
   */
  async #withSlots(command: Command, sent: Promise<CallResult> | undefined, send: () => Promise<CallResult>): Promise<CallResult> {
    const { slots } = this;
    if (sent === undefined && slots.isAwaited) return unavailable(slots.unanswered);
    const result = this.#hear(await (sent ?? send()));
    if (!isCrossSlot(result) || slots.enforced === false) return result;
    if (slots.enforced === undefined) return unavailable(slots.unanswered);
    // The engine knows that no server lacks the script that it got with `EVAL`.
    return command.isByDigest ? NO_SCRIPT : unavailable('the keys are in different slots');
  }

  async #check(keepAlive: boolean): Promise<VersionCheckResult> {
    const telling = this.#answer(this.#ask(), keepAlive).then((result) => this.#hear(result));
    const asking = this.slots.isOpen && this.#broken < MOST_BROKEN ? this.#askForSlots() : undefined;
    const [result, { wrong, isBroken } = NOTHING_WRONG] = [await telling, await asking];
    this.#checking = undefined;
    const problem = ('reply' in result ? this.#problemOf(textOf(result.reply)) : undefined) ?? wrong?.text;
    this.#isRefused = problem !== undefined;
    if (isBroken || isFailure(result, 'interrupted') || this.#isOddRefusal(result)) this.#suspect();
    // A server that was not reached may still reply later. One that refuses `INFO` never will.
    this.passed = ('reply' in result ? !this.#isRefused : this.#isFinal(result)) && !this.slots.isOpen;
    if (this.passed && 'reply' in result) this.onPassed(textOf(result.reply));
    return { problem, wrong, failed: 'failure' in result ? result : undefined };
  }

  /** Why the server doesn't answer `PING`. Undefined if it does. */
  async #absence(): Promise<Failed | undefined> {
    const pong = this.#hear(await this.#answer(this.#call(['PING']), false, this.#timeout / 4));
    this.#pinging = undefined;
    if ('reply' in pong || pong.failure.kind === 'refused') return undefined;
    const isLost = isFailure(pong, 'interrupted') || isFailure(pong, 'timed-out');
    // The command was not sent.
    return isLost ? unavailable(describeFailure(pong.failure), pong.cause) : pong;
  }

  #hear(result: CallResult): CallResult {
    if ('reply' in result || result.failure.kind === 'refused') this.#hasReplied = true;
    return result;
  }

  #suspect(): void {
    this.#isSuspect = true;
    if (this.#hasReplied) this.#broken += 1;
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
    const { failure } = nodes;
    const isFinal = failure.kind === 'refused' ? !isNotReady(failure.text) : this.#isFinal(nodes);
    return isFinal ? info : nodes;
  }

  /** A link that throws is a link that breaks. */
  async #call(words: readonly string[]): Promise<CallResult> {
    return this.#link.call(words);
  }

  /** The same for all commands that wait for the answer. */
  #askForSlotsAlone(): Promise<SlotsResult> {
    return (this.#askingForSlots ??= this.#askForSlots().then((result) => {
      this.#askingForSlots = undefined;
      if (result.isBroken) this.#suspect();
      return result;
    }));
  }

  /** Asks about slots, until there is nothing to ask, or no answer. */
  async #askForSlots(): Promise<SlotsResult> {
    const { slots } = this;
    for (let asked = 0; ; asked++) {
      const { question } = slots;
      if (question === undefined) return NOTHING_WRONG;
      // A command that waits for the answers must still be in time.
      const within = this.#timeout / (asked === 0 ? 2 : 4);
      const answers = await Promise.all(question.map((words) => this.#answer(this.#call(words), false, within)));
      answers.forEach((answer) => this.#hear(answer));
      const wrong = slots.decide(answers);
      const isBroken = answers.some((answer) => isFailure(answer, 'interrupted') || isFailure(answer, 'timed-out'));
      if (wrong !== undefined || slots.question === question) return { wrong, isBroken };
    }
  }

  /** Whether `INFO` was refused for a reason that is not known, so that it may never be answered. */
  #isOddRefusal(result: CallResult): boolean {
    if (!('failure' in result) || result.failure.kind !== 'refused') return false;
    const { text } = result.failure;
    return !this.#isFinal(result) && !isNotReady(text) && !lacksLogin(text);
  }

  /** Whether there will be no other answer to `INFO`. */
  #isFinal({ failure }: Failed): boolean {
    if (failure.kind === 'refused') return refusesInfo(failure.text);
    return failure.kind === 'timed-out' ? !this.#mustReply : failure.kind === 'unsupported';
  }
}

function isFailure(result: CallResult, kind: Failure['kind']): result is Failed {
  return 'failure' in result && result.failure.kind === kind;
}

function refuse(problem: string, wrong: ProbeProblem | undefined): Failed {
  return { failure: { kind: wrong?.isRefusal === true ? 'refused' : 'unsupported', text: problem }, cause: wrong?.cause };
}

const NOTHING_WRONG: SlotsResult = {};

const NO_SCRIPT: Failed = { failure: { kind: 'refused', text: 'NOSCRIPT the keys are in different slots' } };

const TIMED_OUT: Failed = { failure: { kind: 'timed-out' } };
