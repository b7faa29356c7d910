/** Finds out whether a server enforces the slots of a cluster at one address, as the engine's `check_probe` explains. */

import type { CallResult, Link } from '../connections/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { NO_RIGHT } from '../support/errors.generated.js';
import { ignore } from '../support/ignore.js';
import { describeFailure, isNotReady } from './engine-errors.js';
import { textOf } from './text.js';

/** A script on keys of two slots. It writes nothing, and answers 0, or `no clock:` and why scripts can't read it. The same as in `core/src/server.rs`. */
export const PROBE: readonly string[] = [
  'EVAL',
  "local clock = redis.pcall('TIME') if clock.err then clock = redis.pcall('PEXPIRETIME', KEYS[1]) end return type(clock) == 'table' and clock.err and 'no clock: ' .. clock.err or 0",
  '2', 'leasehold:fence', 'leasehold:none',
];

/** What is wrong with a server, or with an option. */
export interface ProbeProblem {
  readonly text: string;
  /** Set if it is an option. */
  readonly invalid?: InvalidOptionError;
  /** Whether the user lacks a right. */
  readonly isRefusal?: boolean;
}

const NO_CLOCK =
  'the server refuses TIME in scripts, and they can\'t run PEXPIRETIME in its place: use Redis 7.0 or Valkey 7.2 or newer, or grant this user +time, or +pexpiretime and +persist: ';

/**
 * The question to one server, which goes together with its first command. The manager reads the answer before the reply to that
 * command, so it knows which counters of fences to use before it grants a lock. Only this answer decides, because all clients
 * must use the same counters.
 */
export class SlotsCheck {
  /** Whether each slot has a counter of its own. Undefined until the server has answered. */
  enforced: boolean | undefined;
  /** Whether the server has to be asked. */
  isOpen: boolean;
  /** Called if the answer says that the server enforces slots, unless an option has said so. */
  onEnforced: () => void = ignore;
  /** The option that says that the server enforces slots. The answer must agree. */
  readonly #field: 'clusterSlots' | 'connection' | undefined;

  /** `option` is the manager's option. For a quorum it is `false`, so the manager doesn't ask. */
  constructor({ library, isCluster, mayEnforceSlots }: Link, option: boolean | undefined) {
    const isKnown = isCluster === true && library !== 'custom';
    if (option === true && isCluster !== true && mayEnforceSlots !== true) {
      throw new InvalidOptionError('clusterSlots', "can't be used with this connection, whose server is not one address of a cluster: leave it out");
    }
    this.isOpen = option !== false && !isKnown && (option === true || isCluster === true || mayEnforceSlots === true);
    this.#field = option === true ? 'clusterSlots' : isCluster === true ? 'connection' : undefined;
    this.enforced = this.#field !== undefined || (this.isOpen ? undefined : false);
  }

  /** Whether the server must confirm the option before a command counts. */
  get isRequired(): boolean {
    return this.isOpen && this.#field !== undefined;
  }

  /** Reads the answer. Returns what is wrong with the option or the server. A question that is still open is asked again. */
  decide(answer: CallResult): ProbeProblem | undefined {
    if (isCrossSlot(answer)) {
      this.isOpen = false;
      if (this.enforced === undefined) {
        this.enforced = true;
        this.onEnforced();
      }
      return undefined;
    }
    if (!isAnswer(answer)) return undefined;
    const [, refusal] = 'reply' in answer ? textOf(answer.reply).split('no clock: ') : [];
    if (refusal !== undefined) return NO_RIGHT.some((words) => refusal.includes(words)) ? { text: refusal, isRefusal: true } : { text: NO_CLOCK + refusal };
    if (this.#field === undefined) return this.giveUp();
    const said = this.#field === 'connection' ? 'has `isCluster`' : 'is set';
    const problem = 'reply' in answer ? `${said}, but the server takes keys of different slots in one call: leave it out` : `${said}, and can't be checked: ${describeFailure(answer.failure)}`;
    const invalid = new InvalidOptionError(this.#field, problem);
    return { text: invalid.message, invalid };
  }

  /** The server doesn't tell. So the manager uses it as a server that takes keys of different slots. */
  giveUp(): undefined {
    this.isOpen = false;
    this.enforced ??= false;
  }
}

/** Whether the server has refused a call because its keys are in different slots. Some proxies have words of their own for that. */
export function isCrossSlot(result: CallResult): boolean {
  return 'failure' in result && result.failure.kind === 'refused' && /CROSSSLOT|same slot/.test(result.failure.text);
}

/** Whether this answer is final, so that the manager doesn't ask again. */
function isAnswer(result: CallResult): boolean {
  if ('reply' in result) return true;
  const { failure } = result;
  return failure.kind === 'refused' ? !isNotReady(failure.text) : failure.kind === 'unsupported';
}
