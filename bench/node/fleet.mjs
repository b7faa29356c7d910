import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { LEASEHOLD, PEERS } from './contenders.mjs';
import { Spread, percentile, time } from './report.mjs';

const ROUNDS = 2;
const PROCESSES = 4;
const FLEETS = [
  { section: 'fleet', tasks: 25, longestHold: 5, title: 'holds of 0 to 5 ms' },
  { section: 'fleet_without_work', tasks: 50, longestHold: 0, title: 'each releases the lock at once' },
];

/** Several processes with several tasks each take one lock all the time. */
export async function measureFleet(report) {
  for (const fleet of FLEETS) await measure(report, fleet);
}

async function measure(report, fleet) {
  const { section, tasks, title } = fleet;
  report.title(`Hot key, ${PROCESSES} processes of ${tasks} tasks, ${title}`);
  report.line(['', -18], ['cycles', 10], ['hand-overs/s', 28], ['busy', 6], ['wait p50', 10], ['p99', 10], ['longest', 10], ['min/max', 7]);
  for (const contender of [LEASEHOLD, ...PEERS]) {
    const samples = [];
    for (let round = 0; round < ROUNDS; round++) samples.push(await sample(contender, fleet));
    const [rate, busy, fairness] = ['rate', 'busy', 'fairness'].map((what) => new Spread(samples.map((one) => one[what])));
    const waits = samples.flatMap((one) => one.waits).sort((a, b) => a - b);
    const [p50, p99, longest] = [50, 99, 100].map((percent) => percentile(waits, percent));
    report.line([contender.name, -18], [waits.length, 10], [rate.shown(), 28], [busy.median.toFixed(2), 6], [time(p50), 10],
      [time(p99), 10], [time(longest), 10], [fairness.median.toFixed(2), 7]);
    report.add(section, { processes: PROCESSES, tasks, contender: contender.name, cycles: waits.length, handovers_per_s: rate, busy,
      wait_p50_ms: p50, wait_p99_ms: p99, wait_longest_ms: longest, grants_min_to_max: fairness });
    if (contender === LEASEHOLD) {
      report.aim(`${section}: min/max >= 0.9`, fairness.median >= 0.9, fairness.shown(2));
    }
  }
}

/** `busy` is the share of the time in which the lock was held. */
async function sample(contender, { tasks, longestHold }) {
  const program = join(import.meta.dirname, 'fleet-worker.mjs');
  const workers = Array.from({ length: PROCESSES }, () => fork(program, [contender.name, `${tasks}`, `${longestHold}`]));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  const told = workers.map(async (worker) => (await once(worker, 'message'))[0]);
  for (const worker of workers) worker.send('go');
  const all = await Promise.all(told);
  const counts = all.flatMap((one) => one.counts);
  const waits = all.flatMap((one) => one.waits);
  const { duration } = all[0];
  return {
    rate: waits.length / duration * 1000,
    busy: all.reduce((sum, { held }) => sum + held, 0) / duration,
    fairness: Math.min(...counts) / Math.max(...counts),
    waits,
  };
}
