/** A server in memory, as tests use it. */

import { type Duration, readDuration, readFields, readName } from '../api/validate.js';
import type { Link } from '../connections/index.js';
import { InvalidOptionError, UnreachableError } from '../support/errors.js';
import { formatValue } from '../support/format.js';
import { openLink } from '../support/in-memory.js';
import { Clock } from './clock.js';
import { MemoryLink } from './link.js';
import { ServerState, STOPPED } from './state.js';

/** The options of a {@link MemoryServer}. */
export interface MemoryServerOptions {
  /** The clock of another server. The servers of a quorum must share one. Default: a new clock. */
  readonly clock?: Clock | undefined;
  /**
   * Whether leases also age when the date is set forward. They do by default, because `node:test` fakes no clock but the date. With
   * false, a date that your test sets (`vi.setSystemTime`, `jest.setSystemTime`, `mock.timers.setTime`) ends no lease. Default: true.
   * Don't give it together with `clock`, which has this setting already.
   */
  readonly followDate?: boolean | undefined;
}

/**
 * A server in memory, for your tests: no Redis, no waiting, and faults on demand. Pass it to {@link LockManager} in place of a
 * client. Several managers can share it, as several processes share a server.
 *
 * It runs the same scripts as a real server does, and real servers are compared with it. It has no replicas and is no cluster.
 *
 * @example
 * ```ts
 * test('my job stops when its lease is lost', async () => {
 *   const server = new MemoryServer();
 *   const lease = await new LockManager(server).mutex('report').acquire();
 *   const job = writeReport(lease.signal);
 *   server.clock.advance('30s');
 *   await assert.rejects(job, { code: 'lost' });
 * });
 * ```
 */
export class MemoryServer {
  /** The time of this server and of its managers. */
  readonly clock: Clock;
  readonly #state: ServerState;

  /** @throws `invalid-option` for a `clock` that is none, and for a `followDate` that is no boolean or comes with a `clock`. */
  constructor(options?: MemoryServerOptions) {
    const { clock: shared, followDate } = readFields(options, ['clock', 'followDate']);
    if (followDate !== undefined && typeof followDate !== 'boolean') throw new InvalidOptionError('followDate', `is ${formatValue(followDate)}: give true or false`);
    if (followDate !== undefined && shared !== undefined) throw new InvalidOptionError('followDate', 'comes with a `clock`, which has this setting: give one of them');
    const clock = shared ?? new Clock(followDate);
    if (!(clock instanceof Clock)) throw new InvalidOptionError('clock', `is ${formatValue(clock)}: give the \`clock\` of another server in memory`);
    this.clock = clock;
    this.#state = new ServerState(clock);
  }

  /** Stops the server, as a crash does. It keeps its data. Commands fail and messages don't come until {@link MemoryServer.start}. */
  stop(): void {
    this.#state.stop();
  }

  /** Starts the server again. */
  start(): void {
    this.#state.isStopped = false;
  }

  /**
   * Deletes all data of the server. A holder finds out at its next renewal, after a third of its `ttl`.
   *
   * @throws `unreachable` if it is stopped.
   */
  flush(): void {
    this.#running().run(['FLUSHALL']);
  }

  /**
   * Holds back every later reply for this time. 0 ends that.
   *
   * @throws `unreachable` if it is stopped; `invalid-option`.
   */
  delay(time: Duration): void {
    this.#running().delay = readDuration('time', time);
  }

  /**
   * Runs the next call of a script, and loses its reply. A waiter asks again after a third of its `claimWindow`; other calls wait
   * for one `responseTimeout` at most.
   *
   * @throws `unreachable` if it is stopped.
   */
  dropNextReply(): void {
    this.#running().dropsNextReply = true;
  }

  /**
   * Ends the time of a lock on the server, as if nobody had renewed it. Its holder finds out at its next renewal, after a third of
   * its `ttl`. Returns false if nobody holds the lock. A manager's `prefix` is part of the name.
   *
   * @throws `unreachable` if it is stopped; `invalid-option`.
   */
  expire(name: string): boolean {
    const result = this.#running().run(['DEL', readName(name, '')]);
    return 'reply' in result && result.reply === 1;
  }

  /** @internal */
  [openLink](): Link {
    return new MemoryLink(this.#state);
  }

  #running(): ServerState {
    if (this.#state.isStopped) throw new UnreachableError(STOPPED, { server: this.#state.name, waited: 0 });
    return this.#state;
  }
}
