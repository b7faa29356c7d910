import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Lets tasks take locks and give them back until the time is over. Tells, a task, the turns within the measured time:
 * when asked, granted and released, in milliseconds.
 */
export async function work(locks, { warmUp, duration, hold }) {
  const from = performance.now() + warmUp;
  const until = from + duration;
  return Promise.all(locks.map(async (acquire) => {
    const turns = [];
    for (;;) {
      const asked = performance.now();
      if (asked >= until) return turns;
      const release = await acquire();
      const granted = performance.now();
      if (hold) await sleep(hold());
      const released = performance.now();
      await release();
      if (released >= from && released < until) turns.push({ asked, granted, released });
    }
  }));
}
