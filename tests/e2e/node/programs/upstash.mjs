import { LockManager } from 'leasehold';
import { upstashConnection } from 'leasehold/upstash';
import tour from './tour.js';

const { UPSTASH_URL: url, UPSTASH_TOKEN: token } = process.env;
const connection = upstashConnection({ url, token });
// The tour waits for the loss of a lease. HTTP has no socket that would keep the process alive, and a held lease doesn't either.
const alive = setInterval(() => {}, 60_000);
await tour(connection, LockManager, () => connection.call(['FLUSHALL']));
clearInterval(alive);
