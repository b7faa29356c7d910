import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Lets tasks take and release locks until the time is over. Returns the turns of each task within the measured time, as the
 * milliseconds at which the lock was requested, granted and released, and the CPU time of this process in the measured time.
 */
export async function work(locks, { warmUp, duration, hold }) {
  const from = performance.now() + warmUp;
  const until = from + duration;
  let began, cpu;
  const turns = await Promise.all(locks.map(async (acquire) => {
    const turns = [];
    for (;;) {
      const asked = performance.now();
      // Not with a timer: a task that never waits for the network would keep timers from firing.
      if (asked >= from) began ??= process.cpuUsage();
      if (asked >= until) {
        cpu ??= process.cpuUsage(began);
        return turns;
      }
      const release = await acquire();
      const granted = performance.now();
      if (hold) await sleep(hold());
      const released = performance.now();
      await release();
      if (released >= from && released < until) turns.push({ asked, granted, released });
    }
  }));
  return { turns, cpuMicroseconds: cpu.user + cpu.system };
}
