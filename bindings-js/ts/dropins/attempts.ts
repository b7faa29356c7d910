/**
 * What node-redlock 4 and 5 have in common: settings and attempts.
 *
 * While processes with node-redlock run (`mixedFleet`, the default), an acquire tries again as often as node-redlock does, so
 * both get their share. Without them, one acquire of the manager waits in the queue for as long.
 */

import { InvalidOptionError, isLeaseholdError, type Lease, type Lock, type LockManager, UnsupportedError } from '../index.js';
import { formatValue } from '../support/format.js';
import { BOUNDS } from '../support/options.generated.js';
import { HOST_TIME } from '../support/timers.js';
import { type Ended, Held, passOnHopeless } from './held.js';
import { type Client, managerOf, type SharedManager } from './managers.js';

/** How often to try, and by which part of the duration clocks may drift. */
export interface RetrySettings {
  readonly driftFactor: number;
  readonly retryCount: number;
  readonly retryDelay: number;
  readonly retryJitter: number;
  readonly mixedFleet?: boolean;
}

export const RETRY_DEFAULTS: Required<RetrySettings> = { driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 100, mixedFleet: true };

/** What a version of node-redlock makes of the attempts to acquire. */
export interface Attempts<L> {
  /** An attempt has ended. Returns how many there were. */
  ended(attempt: Ended): number;
  /** The last one succeeded. */
  acquired(held: Held): L;
  /** All have failed. */
  refused(): Error;
}

/** Acquires over these clients. Throws `invalid-option` or `unsupported` for clients that the engine can't use. */
export class Acquirer {
  readonly #clients: readonly Client[];

  constructor(clients: readonly Client[], settings: RetrySettings) {
    this.#clients = clients;
    this.#open(settings);
  }

  /** Takes all resources or none. With `renew`, the engine extends the lease until it is released. */
  // There are few nested `async` functions, because each costs a promise and its function.
  async acquire<L>(resources: readonly string[], duration: number, settings: RetrySettings, renew: boolean, attempts: Attempts<L>): Promise<L> {
    const { mixedFleet, retryCount } = settings;
    const most = mixedFleet === false ? 1 : retryCount === -1 ? Infinity : retryCount + 1;
    for (;;) {
      let lease: Lease | null = null;
      let problem: unknown;
      try {
        const manager = this.#open(settings);
        const lock = lockFor(manager instanceof Promise ? await manager : manager, resources, duration, renew);
        // The first try may take as long as the server needs, so a short wait doesn't fail because of a slow answer.
        lease = await lock.tryAcquire();
        if (lease === null && mixedFleet === false && retryCount !== 0) lease = await lock.acquire({ wait: waitOf(settings) });
      } catch (error) {
        problem = passOnHopeless(error);
      }
      const count = attempts.ended({ isDone: lease !== null, problem });
      if (lease !== null) {
        return attempts.acquired(new Held(lease, resources, duration, settings.driftFactor));
      }
      if (count >= most) throw attempts.refused();
      await pause(settings);
    }
  }

  #open({ mixedFleet = true }: RetrySettings): ReturnType<SharedManager['open']> {
    return managerOf(this.#clients, mixedFleet).open();
  }
}

/** Turns a thrown error into a rejection. An `async` function would cost one more promise. */
export function rejecting<T>(act: () => Promise<T>): Promise<T> {
  try {
    return act();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** How the clients voted in an attempt that failed, in their order: the error, `busy` if the lock was not free, or undefined if it agreed. */
export function votesOf(problem: unknown, clients: number): (Error | 'busy' | undefined)[] {
  return Array.from({ length: clients }, (_, at) => voteOf(problem, at));
}

function voteOf(problem: unknown, at: number): Error | 'busy' | undefined {
  const vote = (isLeaseholdError(problem, 'busy') || isLeaseholdError(problem, 'unreachable')) ? problem.votes?.[at] : undefined;
  if (vote?.answer === 'agreed') return undefined;
  if (problem === undefined || vote?.answer === 'busy' || (vote === undefined && isLeaseholdError(problem, 'busy'))) return 'busy';
  if (vote !== undefined) return new Error(`${vote.server}: ${vote.problem ?? vote.answer ?? 'the outcome was certain before it answered'}`, { cause: problem });
  // node-redlock gives the error of ioredis.
  const { cause } = problem as Error;
  return cause instanceof Error ? cause : (problem as Error);
}

/** `given` over `defaults`. The fields of `known` are the settings that a version of node-redlock has. */
export function mergeSettings<S extends RetrySettings>(given: Partial<S> | undefined, defaults: S, known: object): S {
  if (given === undefined) return defaults;
  const merged = { ...defaults };
  for (const [field, value] of Object.entries(given)) {
    if (!Object.hasOwn(known, field)) throw new InvalidOptionError(field, `is not a setting. The settings are ${Object.keys(known).join(', ')}`);
    if (value === undefined) continue;
    const wanted = typeof known[field as keyof typeof known];
    if (typeof value !== wanted || Number.isNaN(value)) throw new InvalidOptionError(field, `is ${formatValue(value)}: give a ${wanted}`);
    Object.assign(merged, { [field]: value });
  }
  return merged;
}

export function checkDuration(name: string, duration: unknown): void {
  if (typeof duration !== 'number' || !Number.isInteger(duration)) throw new InvalidOptionError(name, `is ${formatValue(duration)}: give a whole number of milliseconds`);
  const [least, most, bounds] = BOUNDS.ttl;
  if (duration < least || duration > most) throw new InvalidOptionError(name, `is ${duration} ms: choose ${bounds}`);
}

/** Refuses the first script, because the engine has its own. */
export function refuseScripts(scripts: object): void {
  const [script] = Object.entries(scripts).find(([, given]) => given !== undefined) ?? [];
  if (script !== undefined) throw new UnsupportedError(`\`${script}\`, because leasehold has scripts of its own; leave it out`);
}

/** Resources, for messages. */
export function listed(resources: readonly string[]): string {
  return resources.map((name) => `\`${name}\``).join(', ');
}

export function counted(attempts: number): string {
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`;
}

function lockFor(manager: LockManager, resources: readonly string[], ttl: number, renew: boolean): Lock {
  const options = { ttl, renew };
  const [name] = resources;
  if (name !== undefined && (resources.length === 1 || resources.every((other) => other === name))) return manager.mutex(name, options);
  return manager.multi([...new Set(resources)], options);
}

/** The longest wait that the engine takes, in milliseconds. */
const LONGEST_WAIT = BOUNDS.wait[1];

/** How long one `acquire` waits in the queue. */
function waitOf({ retryCount, retryDelay }: RetrySettings): number | 'forever' {
  const wait = Math.max(1, retryCount * retryDelay);
  return retryCount < 0 || wait > LONGEST_WAIT ? 'forever' : wait;
}

function pause({ retryDelay, retryJitter }: RetrySettings): Promise<void> {
  const ms = retryDelay + Math.floor((2 * Math.random() - 1) * retryJitter);
  return new Promise((resolve) => HOST_TIME.setTimeout(resolve, Math.max(0, ms)));
}
