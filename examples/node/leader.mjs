// Two candidates and an observer. The first one leads, stops, and the second one follows at once.
//
// It prints:
//   10.0.0.1:80 leads
//   nobody else leads: true
//   10.0.0.2:80 leads
//   a later term has a greater fence: true
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const [first, second] = [new LockManager(redis), new LockManager(redis)];
const candidates = [
  first.election('example:leader', { value: '10.0.0.1:80' }),
  second.election('example:leader', { value: '10.0.0.2:80' }),
];
const stopping = candidates.map(() => new AbortController());
const fences = [];

/** The leader's work. It ends when the signal aborts: the term is lost, or this candidate stops. */
function work(term) {
  fences.push(term.fence); // send it along with every write that only the leader may do
  return new Promise((resolve) => term.signal.addEventListener('abort', resolve));
}

const led = candidates.map((candidate, at) => candidate.lead(work, { signal: stopping[at].signal }).catch(() => {}));

for await (const leader of first.election('example:leader').observe()) {
  if (leader === null) continue;
  console.log(`${leader.value} leads`);
  const isFirst = leader.value === '10.0.0.1:80';
  if (isFirst) console.log('nobody else leads:', !candidates[1].isLeader);
  stopping[isFirst ? 0 : 1].abort();
  if (!isFirst) break;
}
await Promise.all(led);
console.log('a later term has a greater fence:', fences[1] > fences[0]);

await Promise.all([first.close(), second.close()]);
redis.disconnect();
