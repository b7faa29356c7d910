import { LEASEHOLD, PEERS, RAW, connect, disconnect } from './contenders.mjs';
import { Spread } from './report.mjs';
import { work } from './work.mjs';

const ROUNDS = 5;
const TIMES = { warmUp: 200, duration: 700 };
const CONTENDERS = [LEASEHOLD, RAW, ...PEERS];

/** Takes an uncontended lock and releases it, and counts cycles per second. */
export async function measureUncontended(report) {
  report.title('Uncontended: every task acquires and releases a lock of its own, on one connection');
  report.line(['tasks', 5], ['', -18], ['cycles/s', 28], ['x raw', 20], ['CPU µs', 7]);
  for (const tasks of [1, 64]) {
    const samples = new Map(CONTENDERS.map((contender) => [contender, []]));
    for (let round = 0; round < ROUNDS; round++) {
      for (const contender of CONTENDERS) samples.get(contender).push(await sample(contender, tasks));
    }
    const rows = CONTENDERS.map((contender) => {
      const own = samples.get(contender);
      const rate = new Spread(own.map((one) => one.rate));
      const ratio = new Spread(own.map((one, round) => one.rate / samples.get(RAW)[round].rate));
      const cpu = new Spread(own.map((one) => one.cpu));
      report.line([tasks, 5], [contender.name, -18], [rate.shown(), 28], [ratio.shown(2), 20], [cpu.median.toFixed(1), 7]);
      report.add('uncontended', { tasks, contender: contender.name, cycles_per_s: rate, to_raw: ratio, client_cpu_us_a_cycle: cpu });
      return { contender, ratio, rate };
    });
    const ours = rows[0];
    if (tasks === 64) report.aim('uncontended at 64 tasks >= 0.9 of raw', ours.ratio.median >= 0.9, ours.ratio.shown(2));
    const best = rows.filter(({ contender }) => PEERS.includes(contender)).sort((a, b) => b.rate.median - a.rate.median)[0];
    report.aim(`uncontended at ${tasks} ahead of every peer`, ours.rate.median > best.rate.median,
      `${(ours.rate.median / best.rate.median).toFixed(2)} of ${best.contender.name}`);
  }
}

async function sample(contender, tasks) {
  const redis = await connect();
  const locks = Array.from({ length: tasks }, (_, task) => contender.lock(redis, `${contender.name}-${task}`));
  const { turns, cpuMicroseconds } = await work(locks, TIMES);
  await disconnect(redis);
  const cycles = turns.flat().length;
  return { rate: cycles / TIMES.duration * 1000, cpu: cpuMicroseconds / cycles };
}
