/** `leasehold/without-scripts`: a connection to a server that refuses scripts. */

import type { Link, ScriptlessConnection } from '../connections/index.js';
import { InvalidOptionError } from '../support/errors.js';
import { openLink } from '../support/in-memory.js';
import { TransactionLink } from './link.js';

/**
 * A connection for `new LockManager(...)` and `LockManager.quorum` to a server that refuses `EVAL`, for example by its ACL rules.
 *
 * `client` is an ioredis or node-redis client of a single server or a Sentinel's primary. The manager runs leasehold's scripts
 * itself, on a connection of its own, and writes what they change in transactions (`WATCH`, `MULTI` and `EXEC`). All locks work,
 * also together with clients that use scripts.
 *
 * A call takes two round trips, and begins again if another client changed the lock or the server's fence meanwhile. So this is
 * slower, above all with many clients. It loads a second WebAssembly module, and is not for Workers.
 *
 * The manager refuses a cluster and other kinds of connections with `invalid-option`.
 *
 * @example
 * ```ts
 * import { Redis } from 'ioredis';
 * import { LockManager } from 'leasehold';
 * import { withoutScripts } from 'leasehold/without-scripts';
 *
 * const locks = new LockManager(withoutScripts(new Redis()));
 * ```
 */
export function withoutScripts(client: object): ScriptlessConnection {
  if (typeof client !== 'object' || client === null) throw new InvalidOptionError('client', 'must be an ioredis or node-redis client');
  return new WithoutScripts(client);
}

class WithoutScripts implements ScriptlessConnection {
  readonly client: object;
  readonly refusesScripts = true;

  constructor(client: object) {
    this.client = client;
  }

  [openLink](recognise: (connection: unknown) => Link): Link {
    const link = recognise(this.client);
    if (link.isCluster !== true && (link.library === 'ioredis' || link.library === 'node-redis')) return new TransactionLink(link);
    void link.close();
    throw new InvalidOptionError('connection', `can't be used without scripts: ${problemOf(link)}`);
  }
}

function problemOf(link: Link): string {
  if (link.isCluster === true) return 'it leads to a cluster, and transactions need a single server';
  return 'only ioredis and node-redis clients can open the connection of its own that this needs';
}
