import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Lets tasks take locks and give them back until the time is over. Tells, a task, the turns within the measured time, when
 * asked, granted and released, in milliseconds; and the processor time that this process spent on them all.
 */
export async function work(locks, { warmUp, duration, hold }) {
  const from = performance.now() + warmUp;
  const until = from + duration;
  let began, cpu;
  const turns = await Promise.all(locks.map(async (acquire) => {
    const turns = [];
    for (;;) {
      const asked = performance.now();
      // Not by a timer: a task that never waits for the network leaves timers no time.
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
