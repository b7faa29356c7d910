import { LockManager } from 'leasehold';
import { upstashConnection } from 'leasehold/upstash';
import tour from './tour.js';

/** The tour over HTTP. Its second command gets no reply. */
export async function overHttp(url, token) {
  const connection = upstashConnection({ url, token });
  await connection.call(['PING']);
  const lost = await connection.call(['INCR', 'count']).catch((error) => error);
  if (!(lost instanceof Error) || lost.sent === false) throw new Error(`the reply was lost, not ${lost}`);
  // The tour waits for the loss of a lease. HTTP has no socket that would keep the process alive, and a held lease doesn't either.
  const alive = setInterval(() => {}, 60_000);
  await tour(connection, LockManager, () => connection.call(['FLUSHALL']));
  clearInterval(alive);
}

const { UPSTASH_URL, UPSTASH_TOKEN } = globalThis.process?.env ?? {};
if (UPSTASH_URL !== undefined) await overHttp(UPSTASH_URL, UPSTASH_TOKEN);
