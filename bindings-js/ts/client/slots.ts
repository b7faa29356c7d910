/** Finds out whether a server enforces the slots of a cluster at one address, as the engine's `check_probe` explains. */

import { type CallResult, type Link, truncate } from '../connections/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { ignore } from '../support/ignore.js';
import { describeFailure, needsCluster } from './engine-errors.js';
import { isNotReady, lacksLogin, meaningOf } from './refusals.js';
import { NO_CLOCK, NO_SLOTS, PROBE, SLOT_COUNTERS } from './servers.generated.js';
import { textOf } from './text.js';

/** What to ask a server, all at once. */
type Question = readonly (readonly string[])[];

const SLOTS: Question = [PROBE];
const NODES: Question = SLOT_COUNTERS.map((key) => ['GET', key]);

/** What is wrong with a server, or with an option. */
export interface ProbeProblem {
  readonly text: string;
  /** The library's error, or `invalid-option` if an option is wrong. */
  readonly cause?: unknown;
  /** Whether the user lacks a right, or has not logged in. */
  readonly isRefusal?: boolean;
}

/**
 * The questions to one server, which go together with its first command. The manager reads the answer before the reply to that
 * command, so it knows which counters of fences to use before it grants a lock. Only these answers decide, because all clients
 * must use the same counters.
 */
export class SlotsCheck {
  /** Whether each slot has a counter of its own. Undefined until the server has answered. */
  enforced: boolean | undefined;
  /** What the server has to be asked next. Undefined once everything is known. */
  question: Question | undefined;
  /** Called if the answer says that the server enforces slots, unless an option has said so. */
  onEnforced: () => void = ignore;
  /** The option that says that the server enforces slots. The answer must agree. */
  readonly #field: 'clusterSlots' | 'connection' | undefined;
  /** Whether the connection leads to one server, which can be a node of a cluster. */
  readonly #isOne: boolean;
  /** Why there is no answer. */
  #silence = '';
  #isRefused = false;

  /** `option` is the manager's option. For a quorum it is `false`, so the manager doesn't ask. */
  constructor({ library, isCluster, mayEnforceSlots }: Link, option: boolean | undefined) {
    const isKnown = isCluster === true && library !== 'custom';
    if (option === true && isCluster !== true && mayEnforceSlots !== true) {
      throw new InvalidOptionError('clusterSlots', "can't be used with this connection, whose server is not one address of a cluster: leave it out");
    }
    const isOpen = option !== false && !isKnown && (option === true || isCluster === true || mayEnforceSlots === true);
    this.question = isOpen ? SLOTS : undefined;
    this.#field = option === true ? 'clusterSlots' : isCluster === true ? 'connection' : undefined;
    this.#isOne = isCluster !== true;
    this.enforced = this.#field !== undefined || (isOpen ? undefined : false);
  }

  get isOpen(): boolean {
    return this.question !== undefined;
  }

  /** Whether a command has to wait for the answer. A lock that is granted before it would not be given back. */
  get isAwaited(): boolean {
    return this.isOpen && (this.#isRefused || this.#isAboutNodes || this.#field !== undefined);
  }

  /** Whether it is known that the server enforces slots. */
  get #isAboutNodes(): boolean {
    return this.isOpen && this.question !== SLOTS;
  }

  /** Why a command fails while there is no answer. */
  get unanswered(): string {
    const what = this.#isAboutNodes ? 'other nodes of its cluster have slots' : 'it enforces the slots of a cluster';
    return `the server has not said whether ${what}: ${this.#silence}`;
  }

  /** Reads the answers to the question. Returns what is wrong with the option or the server. A question that is still open is asked again. */
  decide(answers: readonly CallResult[]): ProbeProblem | undefined {
    const problem = this.#isAboutNodes ? this.#decideNodes(answers) : answers.map((answer) => this.#decideSlots(answer))[0];
    this.#isRefused = problem !== undefined;
    return problem;
  }

  #decideSlots(answer: CallResult): ProbeProblem | undefined {
    // A client library that knows the slots may refuse the call itself.
    if ('failure' in answer && 'text' in answer.failure && meaningOf(answer.failure.text) === 'cross-slot') {
      this.question = this.#isOne ? NODES : undefined;
      if (this.enforced === undefined) {
        this.enforced = true;
        this.onEnforced();
      }
      return undefined;
    }
    if (this.#isUnanswered(answer)) return undefined;
    // The program may log in later, and the server then answers.
    if ('failure' in answer && answer.failure.kind === 'refused' && lacksLogin(answer.failure.text)) {
      return { text: answer.failure.text, cause: answer.cause, isRefusal: true };
    }
    const [begin, unusable] = NO_CLOCK;
    const [, refusal] = 'reply' in answer ? truncate(textOf(answer.reply)).split(begin) : [];
    if (refusal !== undefined) return meaningOf(refusal) === 'auth' ? { text: refusal, isRefusal: true } : { text: unusable + refusal };
    if (this.#field === undefined) return void this.giveUp();
    const [takesSlots, unchecked] = NO_SLOTS;
    const said = this.#field === 'connection' ? 'has `isCluster`' : 'is set';
    const invalid = new InvalidOptionError(this.#field, `${said}, ${'reply' in answer ? takesSlots : unchecked + describeFailure(answer.failure)}`);
    return { text: invalid.message, cause: invalid };
  }

  #decideNodes(answers: readonly CallResult[]): ProbeProblem | undefined {
    const texts = answers.map((answer) => ('failure' in answer && answer.failure.kind === 'refused' ? answer.failure.text : ''));
    const moved = texts.find((text) => text.startsWith('MOVED '));
    if (moved !== undefined) return { text: needsCluster(moved) };
    const silent = answers.map((answer) => this.#isUnanswered(answer));
    // What was answered is known, so only the rest is asked again.
    const rest = this.question?.filter((_, at) => silent[at] === true) ?? [];
    const isBroken = answers.some((answer, at) => silent[at] === true && 'failure' in answer && answer.failure.kind !== 'refused');
    // A slot that moves, or one without a server, doesn't show that another server has it. All of them say nothing.
    if (rest.length < NODES.length && !isBroken) this.question = undefined;
    else if (rest.length < answers.length) this.question = rest;
    return undefined;
  }

  /**
   * The server doesn't tell. So the manager uses it as a server that takes keys of different slots, unless it is known that it
   * doesn't. An option that the server must confirm stays unconfirmed. Returns whether everything is decided.
   */
  giveUp(): boolean {
    if (this.question === SLOTS && this.#field !== undefined) return false;
    this.question = undefined;
    this.enforced ??= false;
    return true;
  }

  /** Whether this is no answer, so that the manager asks again. */
  #isUnanswered(result: CallResult): boolean {
    if ('reply' in result) return false;
    const { failure } = result;
    this.#silence = describeFailure(failure);
    return failure.kind === 'refused' ? isNotReady(failure.text) : failure.kind !== 'unsupported';
  }
}

/** Whether the server has refused a call because its keys are in different slots. */
export function isCrossSlot(result: CallResult): boolean {
  return 'failure' in result && result.failure.kind === 'refused' && meaningOf(result.failure.text) === 'cross-slot';
}
