/** A lease as all handles to it see it, from its grant to its end. */

import type { Grant, Mode } from './engine.js';
import { type AnyLeaseholdError, ClosedError, LostError, type LossReason } from './errors.js';

export class Held {
  readonly id: number;
  readonly name: string;
  /** What the server keeps if nobody renews, in milliseconds. */
  readonly ttl: number;
  mode: Mode;
  fence: number;
  /** The fence of each name, if it is held under several. */
  #shared: ReadonlyMap<string, number> | undefined;
  /** How many holds there are: each handle is one. */
  holds = 1;
  /** Whether its holder has asked for what tells of a loss. */
  watched = false;
  /** Why the lease ended before its holder gave it back. */
  ended: AnyLeaseholdError | undefined;
  // Made when somebody asks for them: most leases are neither watched nor lost.
  #controller: AbortController | undefined;
  #lost: Promise<LossReason> | undefined;
  #tellLost: ((reason: LossReason) => void) | undefined;

  constructor(grant: Grant, name: string, ttl: number) {
    this.id = grant.lease;
    this.name = name;
    this.ttl = ttl;
    this.mode = grant.mode;
    this.fence = grant.fence;
  }

  get fences(): ReadonlyMap<string, number> {
    return this.#shared ?? new Map([[this.name, this.fence]]);
  }

  /** It is held under several names. */
  share(names: readonly string[], fences: readonly number[]): void {
    this.#shared = new Map(names.map((name, index) => [name, fences[index] as number]));
  }

  get loss(): LossReason | undefined {
    return this.ended?.code === 'lost' ? this.ended.reason : undefined;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.ended !== undefined) this.#controller.abort(this.ended);
    }
    return this.#controller.signal;
  }

  get lost(): Promise<LossReason> {
    const { loss } = this;
    this.#lost ??= loss !== undefined ? Promise.resolve(loss) : new Promise((resolve) => (this.#tellLost = resolve));
    return this.#lost;
  }

  convert(grant: Grant): void {
    this.mode = grant.mode;
    this.fence = grant.fence;
  }

  lose(reason: LossReason): void {
    this.ended ??= new LostError(this.name, reason);
  }

  /** The manager gives the lease back, and not its holder. */
  close(): void {
    this.ended ??= new ClosedError({ lockName: this.name });
  }

  /** Tells whoever watches. It runs foreign code. */
  tell(): void {
    const { loss } = this;
    if (loss !== undefined) this.#tellLost?.(loss);
    this.#controller?.abort(this.ended);
    if (loss !== undefined && !this.watched) warn(`${this.ended?.message}. ${ADVICE}`);
  }
}

const TYPE = 'LeaseLostWarning';
const ADVICE = 'Nobody listens for it: pass `lease.signal` to the work, await `lease.lost`, or work inside `run`.';

/** As Node warns, which each program can silence; on the console where a host has no such thing. */
function warn(message: string): void {
  const { process, console } = globalThis as { process?: Partial<NodeJS.Process>; console?: Console };
  if (typeof process?.emitWarning === 'function') process.emitWarning(message, { type: TYPE, code: 'LEASEHOLD_LEASE_LOST' });
  else console?.warn(`${TYPE}: ${message}`);
}
