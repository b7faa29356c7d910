/** What a server's error means. The words are those of the engine's tables. */

import { BAD_FENCE, BROKE, CROSS_SLOT, NO_MORE_CLIENTS, NO_RIGHT, NOT_READY, SLOT_MOVES, UNREACHED, WRONG_TYPE } from '../support/errors.generated.js';
import type { Failure } from '../connections/index.js';
import { NO_CLOCK, REFUSES_INFO } from './servers.generated.js';

/**
 * What an error means: that the server is not ready, that it may have run a part of the command, that the keys of the call are in
 * different slots, that another server has the slot, or the code of the error that the call ends with.
 */
export type Meaning = 'not-ready' | 'interrupted' | 'cross-slot' | 'elsewhere' | 'wrong-kind' | 'auth' | 'unsupported' | 'protocol' | 'server';

/** What a server's error means. The engine decides in the same order, and gives no meaning to `elsewhere` and `cross-slot`. */
export function meaningOf(text: string): Meaning {
  if (ELSEWHERE.test(text)) return 'elsewhere';
  if (BEGINS_NOT_READY.test(text)) return 'not-ready';
  if (BEGINS_BAD_FENCE.test(text)) return 'protocol';
  if (text.includes(WRONG_TYPE)) return 'wrong-kind';
  if (NO_RIGHT.some((words) => text.includes(words))) return 'auth';
  if (text.startsWith(NO_CLOCK[0])) return 'unsupported';
  if (HAS_NOT_READY.test(text)) return 'not-ready';
  if (text.includes(SLOT_MOVES) || hasLine(text, BROKE)) return 'interrupted';
  if (text.includes(NO_MORE_CLIENTS) || hasLine(text, UNREACHED)) return 'not-ready';
  return CROSS_SLOT.some((words) => text.includes(words)) ? 'cross-slot' : 'server';
}

/** Whether a server's error means that the same command may succeed later. */
export function isNotReady(text: string): boolean {
  return ['not-ready', 'interrupted', 'elsewhere'].includes(meaningOf(text));
}

/** Whether the client has not logged in, or with the wrong password. A missing right is something else. */
export function lacksLogin(text: string): boolean {
  return meaningOf(text) === 'auth' && LOGIN.test(text);
}

/** A failure as the engine takes it. Its module leaves the words of proxies, and those about a server without a clock, to JavaScript. */
export function explained(failure: Failure): Failure {
  if (failure.kind !== 'refused') return failure;
  const { text } = failure;
  const meaning = meaningOf(text);
  const [begin, problem] = NO_CLOCK;
  if (meaning === 'unsupported') return { kind: 'unsupported', text: problem + text.slice(begin.length) };
  if (meaning === 'not-ready' && hasLine(text, UNREACHED)) return { kind: 'unavailable', text };
  return meaning === 'interrupted' && hasLine(text, BROKE) ? { kind: 'interrupted', text } : failure;
}

/** Whether an error reply to `INFO` says that the server doesn't tell about itself. */
export function refusesInfo(text: string): boolean {
  const lower = text.toLowerCase();
  return REFUSES_INFO.some((words) => lower.includes(words));
}

const LOGIN = /^-?(?:NOAUTH|WRONGPASS)|unauthenticated/;

/** Some of these words are the end of a line. */
function hasLine(text: string, words: readonly string[]): boolean {
  return words.some((words) => `${text}\n`.includes(words));
}

const CODES = NOT_READY.join('|');
/** The first word of an error, as the engine finds it. */
const first = (codes: string): RegExp => new RegExp(`^[-\\s]*(?:${codes})(?![^-\\s])`);
/** Redis 6 wraps an error inside of a script. */
const HAS_NOT_READY = new RegExp(`: -?(?:${CODES}) `);
const BEGINS_NOT_READY = first(CODES);
const BEGINS_BAD_FENCE = first(BAD_FENCE);
const ELSEWHERE = first('MOVED|ASK');
