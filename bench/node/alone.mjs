import { DROP_INS, LEASEHOLD, NODE_REDIS, REDLOCK, REDLOCK4, RUN, SEMAPHORE, SET, connect, connectNodeRedis, disconnect } from './contenders.mjs';
import { Spread, percentile } from './report.mjs';

const ROUNDS = 9;
const TIMES = { warmUp: 150, duration: 400 };
/** Other contenders' code is compiled meanwhile, too, so the first rounds don't count. */
const FIRST_ROUNDS = 2;
const BURST = 64;
const ROWS = [SET, SEMAPHORE, REDLOCK, REDLOCK4, LEASEHOLD, RUN, ...DROP_INS, ...NODE_REDIS];

/** One task takes a free lock and gives it back, one request at a time. Then bursts of calls, all made in one turn of the event loop. */
export async function measureAlone(report, quick) {
  const rows = quick ? [SEMAPHORE, LEASEHOLD] : ROWS;
  const clients = new Map();
  for (const row of rows) clients.set(row, row.library === 'node-redis' ? await connectNodeRedis() : await connect());
  report.title('Alone: one task acquires and releases one of ten locks; then bursts of 64 locks at once');
  report.line(['calls', 5], ['', -25], ['cycles/s', 22], ['p50 µs', 18], ['p99 µs', 18], ['CPU µs', 17]);
  for (const calls of [1, BURST]) {
    const samples = new Map(rows.map((row) => [row, []]));
    for (let round = -FIRST_ROUNDS; round < ROUNDS; round++) {
      for (const row of rows) {
        const measured = await sample(row, clients.get(row), calls);
        if (round >= 0) samples.get(row).push(measured);
      }
    }
    for (const row of rows) {
      const of = (what) => new Spread(samples.get(row).map((one) => one[what]));
      const [rate, p50, p99, cpu] = [of('rate'), of('p50'), of('p99'), of('cpu')];
      report.line([calls, 5], [row.name, -25], [rate.shown(), 22], [p50.shown(), 18], [p99.shown(), 18], [cpu.shown(), 17]);
      report.add('alone', { calls, contender: row.name, cycles_per_s: rate, p50_us: p50, p99_us: p99, client_cpu_us_a_cycle: cpu });
    }
    const ratio = (one, other, what) => new Spread(samples.get(one).map((sample, round) => sample[what] / samples.get(other)[round][what]));
    const aim = (one, other, what, most) => {
      if (!samples.has(one) || !samples.has(other)) return;
      const measured = ratio(one, other, what);
      report.aim(`${calls} at once, ${what} of ${one.name} <= ${most} of ${other.name}`, measured.median <= most, measured.shown(2));
    };
    if (calls === BURST) continue;
    for (const [what, most] of [['p50', 1.3], ['cpu', 1.2], ['p99', 1]]) aim(LEASEHOLD, SEMAPHORE, what, most);
    for (const what of ['p50', 'cpu']) {
      aim(RUN, LEASEHOLD, what, 1.05);
      aim(DROP_INS[0], REDLOCK, what, 1.2);
      aim(DROP_INS[1], SEMAPHORE, what, 1.2);
      aim(DROP_INS[2], REDLOCK4, what, 1.2);
    }
  }
  for (const client of clients.values()) await disconnect(client);
}

async function sample(row, redis, calls) {
  const names = Array.from({ length: Math.max(10, calls) }, (_, index) => `${row.name}-${index}`);
  const cycles = names.map((name) => cycleOf(row, redis, name));
  const times = [];
  const from = performance.now() + TIMES.warmUp;
  const until = from + TIMES.duration;
  let began, cpu;
  for (let next = 0, now = performance.now(); now < until || times.length === 0; next = (next + calls) % cycles.length) {
    if (began === undefined && now >= from) [began, cpu] = [now, process.cpuUsage()];
    if (calls === 1) await cycles[next]();
    else await Promise.all(cycles.map((cycle) => cycle()));
    const ended = performance.now();
    if (began !== undefined) times.push((ended - now) * 1000);
    now = ended;
  }
  const { user, system } = process.cpuUsage(cpu);
  const count = times.length * calls;
  const seconds = (performance.now() - began) / 1000;
  times.sort((a, b) => a - b);
  return { rate: count / seconds, p50: percentile(times, 50), p99: percentile(times, 99), cpu: (user + system) / count };
}

/** One lock and release. */
function cycleOf(row, redis, name) {
  if (row.cycle !== undefined) return row.cycle(redis, name);
  const acquire = row.lock(redis, name);
  return async () => {
    const release = await acquire();
    await release();
  };
}
