import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { LEASEHOLD, PEERS } from './contenders.mjs';
import { Spread, percentile, time } from './report.mjs';

const ROUNDS = 2;
const PROCESSES = 4;
const TASKS = 25;

/** Several processes of 25 tasks each take one lock all the time, and hold it for 0 to 5 ms. */
export async function measureFleet(report) {
  report.title(`Hot key, ${PROCESSES} processes of ${TASKS} tasks, holds of 0 to 5 ms`);
  report.line(['', -18], ['hand-overs/s', 20], ['busy', 6], ['wait p50', 10], ['p99', 10], ['longest', 10], ['min/max', 7]);
  for (const contender of [LEASEHOLD, ...PEERS]) {
    const samples = [];
    for (let round = 0; round < ROUNDS; round++) samples.push(await sample(contender));
    const [rate, busy, fairness] = ['rate', 'busy', 'fairness'].map((what) => new Spread(samples.map((one) => one[what])));
    const waits = samples.flatMap((one) => one.waits).sort((a, b) => a - b);
    const [p50, p99, longest] = [50, 99, 100].map((percent) => percentile(waits, percent));
    report.line([contender.name, -18], [rate.shown(), 20], [busy.median.toFixed(2), 6], [time(p50), 10], [time(p99), 10],
      [time(longest), 10], [fairness.median.toFixed(2), 7]);
    report.add('fleet', { processes: PROCESSES, tasks: TASKS, contender: contender.name, handovers_per_s: rate, busy,
      wait_p50_ms: p50, wait_p99_ms: p99, wait_longest_ms: longest, grants_min_to_max: fairness });
  }
}

/** `busy` is the share of the time in which the lock was held. */
async function sample(contender) {
  const program = join(import.meta.dirname, 'fleet-worker.mjs');
  const workers = Array.from({ length: PROCESSES }, () => fork(program, [contender.name, `${TASKS}`]));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  for (const worker of workers) worker.send('go');
  const told = await Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0]));
  const turns = told.flatMap(({ turns }) => turns);
  const all = turns.flat();
  const counts = turns.map((its) => its.length);
  const seconds = told[0].duration / 1000;
  return {
    rate: all.length / seconds,
    busy: all.reduce((sum, turn) => sum + turn.released - turn.granted, 0) / told[0].duration,
    fairness: Math.min(...counts) / Math.max(...counts),
    waits: all.map((turn) => turn.granted - turn.asked),
  };
}
