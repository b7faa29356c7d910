import { LEASEHOLD, PEERS, connect, disconnect } from './contenders.mjs';
import { Spread, percentile, time } from './report.mjs';
import { work } from './work.mjs';

const ROUNDS = 3;
const TIMES = { warmUp: 500, duration: 2000 };

/** Many tasks of one process take one lock all the time. */
export async function measureHotKey(report) {
  report.title('Hot key, one process: all tasks take one lock and release it at once');
  report.line(['tasks', 5], ['', -18], ['hand-overs/s', 28], ['wait p50', 10], ['p99', 10], ['longest', 10], ['min/max', 7],
    ['CPU µs', 7]);
  const ours = [];
  for (const tasks of [10, 100, 500]) {
    for (const contender of [LEASEHOLD, ...PEERS]) {
      const samples = [];
      for (let round = 0; round < ROUNDS; round++) samples.push(await sample(contender, tasks));
      const rate = new Spread(samples.map((one) => one.rate));
      const fairness = new Spread(samples.map((one) => one.fairness));
      const cpu = new Spread(samples.map((one) => one.cpu));
      const waits = samples.flatMap((one) => one.waits).sort((a, b) => a - b);
      const [p50, p99, longest] = [50, 99, 100].map((percent) => percentile(waits, percent));
      report.line([tasks, 5], [contender.name, -18], [rate.shown(), 28], [time(p50), 10], [time(p99), 10], [time(longest), 10],
        [fairness.median.toFixed(2), 7], [cpu.median.toFixed(1), 7]);
      report.add('hot_key', { tasks, contender: contender.name, handovers_per_s: rate, wait_p50_ms: p50, wait_p99_ms: p99,
        wait_longest_ms: longest, grants_min_to_max: fairness, client_cpu_us_a_handover: cpu });
      if (contender === LEASEHOLD) {
        report.aim(`hot key, ${tasks} tasks >= 100,000/s`, rate.median >= 100_000, rate.shown());
        report.aim(`hot key, ${tasks} tasks min/max >= 0.9`, fairness.median >= 0.9, fairness.shown(2));
        ours.push(rate.median);
      }
    }
  }
  const flat = ours.at(-1) / ours[0];
  report.aim('hot key flat: 500 tasks at >= 0.8 of 10 tasks', flat >= 0.8, flat.toFixed(2));
}

async function sample(contender, tasks) {
  const redis = await connect();
  const locks = Array.from({ length: tasks }, () => contender.lock(redis, `hot-${contender.name}`));
  const { turns, cpuMicroseconds } = await work(locks, TIMES);
  await disconnect(redis);
  const counts = turns.map((its) => its.length);
  const handovers = counts.reduce((sum, count) => sum + count, 0);
  return {
    rate: handovers / TIMES.duration * 1000,
    cpu: cpuMicroseconds / handovers,
    fairness: Math.min(...counts) / Math.max(...counts),
    waits: turns.flatMap((its) => its.map((turn) => turn.granted - turn.asked)),
  };
}
