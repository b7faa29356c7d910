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
const observer = first.election('example:leader').observe();
const [stopFirst, stopSecond] = [new AbortController(), new AbortController()];

/** Takes part until the signal aborts. The promise is for this candidate's first term. */
function takePart(candidate, signal) {
  return new Promise((began) => {
    const work = (term) => {
      began(term);
      // The leader's work. It ends when its signal aborts: the term is lost, or this candidate stops.
      return new Promise((resolve) => term.signal.addEventListener('abort', resolve));
    };
    candidate.lead(work, { signal }).catch((error) => signal.aborted || console.error(error));
  });
}

/** Waits until somebody leads. */
async function leads() {
  for (;;) {
    const { value: leader } = await observer.next();
    if (leader !== null) return console.log(`${leader.value} leads`);
  }
}

const term = await takePart(first.election('example:leader', { value: '10.0.0.1:80' }), stopFirst.signal);
await leads();
const candidate = second.election('example:leader', { value: '10.0.0.2:80' });
const next = takePart(candidate, stopSecond.signal);
console.log('nobody else leads:', !candidate.isLeader);

stopFirst.abort();
await leads();
const { fence } = await next; // send it along with every write that only the leader may do
console.log('a later term has a greater fence:', fence > term.fence);

stopSecond.abort();
await Promise.all([first.close(), second.close()]);
redis.disconnect();
