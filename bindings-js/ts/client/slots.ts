/** Finds out whether a server enforces the slots of a cluster at one address, as the engine's `check_slots` explains. */

import type { CallResult, Link } from '../connections/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { ignore } from '../support/ignore.js';
import { describeFailure, isNotReady } from './engine-errors.js';

/** A call with keys of two slots that does nothing. The same as in `core/src/server.rs`. */
export const SLOTS_PROBE: readonly string[] = ['EVAL', 'return 0', '2', 'leasehold:fence', 'leasehold:none'];

/**
 * The question to one server, which goes together with its first command. What it answers counts before that command's reply does, so
 * no lock is granted before the way is known. Only this answer decides, because each way has its own counters of fences.
 */
export class SlotsCheck {
  /** Whether each slot has a counter of its own. Undefined until the server has answered. */
  enforced: boolean | undefined;
  /** Whether the server has to be asked. */
  isOpen: boolean;
  /** Called if the answer says that it enforces slots, unless that was told before. */
  onEnforced: () => void = ignore;
  /** The option that says so. The answer must agree. */
  readonly #field: 'clusterSlots' | 'connection' | undefined;

  /** `option` is what the manager's option says. A quorum asks nothing, as with `false`. */
  constructor({ library, isCluster, mayEnforceSlots }: Link, option: boolean | undefined) {
    const isKnown = isCluster === true && library !== 'custom';
    if (option === true && isCluster !== true && mayEnforceSlots !== true) {
      throw new InvalidOptionError('clusterSlots', "can't be used with this connection, whose server is not one address of a cluster: leave it out");
    }
    this.isOpen = option !== false && !isKnown && (option === true || isCluster === true || mayEnforceSlots === true);
    this.#field = option === true ? 'clusterSlots' : isCluster === true ? 'connection' : undefined;
    this.enforced = this.#field !== undefined || (this.isOpen ? undefined : false);
  }

  /** Whether the server must agree before a command counts. */
  get isRequired(): boolean {
    return this.isOpen && this.#field !== undefined;
  }

  /** Reads the answer. Returns what is wrong with the option. A question that is still open is asked again. */
  decide(answer: CallResult): InvalidOptionError | undefined {
    if (isCrossSlot(answer)) {
      this.isOpen = false;
      if (this.enforced === undefined) {
        this.enforced = true;
        this.onEnforced();
      }
      return undefined;
    }
    if (!isAnswer(answer)) return undefined;
    if (this.#field === undefined) return this.giveUp();
    const said = this.#field === 'connection' ? 'has `isCluster`' : 'is set';
    const problem = 'reply' in answer ? `${said}, but the server takes keys of different slots in one call: leave it out` : `${said}, and can't be checked: ${describeFailure(answer.failure)}`;
    return new InvalidOptionError(this.#field, problem);
  }

  /** The server doesn't tell. So it is used as one that takes keys of different slots. */
  giveUp(): undefined {
    this.isOpen = false;
    this.enforced ??= false;
  }
}

/** Whether the server has refused a call because its keys are in different slots. Some proxies have words of their own for that. */
export function isCrossSlot(result: CallResult): boolean {
  return 'failure' in result && result.failure.kind === 'refused' && /CROSSSLOT|same slot/.test(result.failure.text);
}

/** Whether a later answer won't be another one. */
function isAnswer(result: CallResult): boolean {
  if ('reply' in result) return true;
  const { failure } = result;
  return failure.kind === 'refused' ? !isNotReady(failure.text) : failure.kind === 'unsupported' || failure.kind === 'timed-out';
}
