import { setTimeout as sleep } from 'node:timers/promises';

/** For a library that polls much more often than the others. */
const POLL = 100;

/** Lets workers increment a number that only the lock protects. Returns how often they did. */
export async function count(lockOf, redis, key, goal, workers, pause) {
  let counted = 0;
  await together(workers, async () => {
    const lock = lockOf(POLL);
    for (let number = 0; number < goal; ) {
      await lock.acquire();
      number = Number(await redis.get(key));
      if (number < goal) {
        await redis.set(key, number + 1);
        counted++;
      }
      await lock.release();
      if (pause) await sleep(Math.random() * pause);
    }
  });
  return counted;
}

/** Lets tasks acquire and release a lock. Returns for each task the microseconds that it waited for each grant. */
export async function work(lockOf, name, tasks, apart, warmUp, time) {
  const from = performance.now() + warmUp;
  const until = from + time;
  return together(tasks, async (task) => {
    const lock = lockOf(apart ? `${name}-${task}` : name);
    const waits = [];
    for (;;) {
      const asked = performance.now();
      await lock.acquire();
      const granted = performance.now();
      await lock.release();
      const released = performance.now();
      if (released > until) return waits;
      if (released > from) waits.push(Math.round((granted - asked) * 1000));
    }
  });
}

function together(times, work) {
  return Promise.all(Array.from({ length: times }, (_, index) => work(index)));
}
