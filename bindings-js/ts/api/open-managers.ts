/** Counts the open managers of each connection, to warn of a program that makes one for each request. */

import type { Client } from '../client/index.js';
import { emitWarning } from '../support/host.js';

/** No program needs so many on one connection. */
const MANY = 100;

/** The connections of the clients that are open. */
const connections = new WeakMap<Client, object>();
/** How many managers are open on a connection. NaN after the warning. */
const counts = new WeakMap<object, number>();

/** A manager is open on this connection of the program. Servers in memory are for tests, which may leave managers open. */
export function managerOpened(client: Client, connection: object): void {
  if (client.library === 'memory') return;
  const count = (counts.get(connection) ?? 0) + 1;
  connections.set(client, connection);
  counts.set(connection, count === MANY ? NaN : count);
  if (count !== MANY) return;
  emitWarning({
    type: 'LeaseholdManagersWarning', code: 'LEASEHOLD_MANY_MANAGERS',
    message: `${MANY} lock managers are open on one connection. Make one for each process and share it, or close each one: an open manager keeps memory, and a connection for messages once it has waited or renewed`,
  });
}

/** The manager is closed. A second call does nothing. */
export function managerClosed(client: Client): void {
  const connection = connections.get(client);
  if (connection === undefined) return;
  connections.delete(client);
  counts.set(connection, (counts.get(connection) ?? 0) - 1);
}
