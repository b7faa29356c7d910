import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { Spread } from './report.mjs';

const ROUNDS = 30;
const PARTS = ['import', 'manager', 'acquire'];

/** A connected process imports the package and takes a lock, on a server that does not have the scripts yet. */
export function measureFirstLock(report) {
  report.title('First lock: from the import on, on a connected ioredis, each in a new process');
  report.line(['', -18], ['ms', 22], ['CPU ms', 22]);
  const samples = { leasehold: [], SET: [] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const contender of Object.keys(samples)) samples[contender].push(sample(contender));
  }
  const rows = PARTS.map((part) => [part, samples.leasehold.map((parts) => parts[part])]);
  const totals = samples.leasehold.map((parts) => total(Object.values(parts)));
  rows.push(['in all', totals], ['first SET NX PX', samples.SET.map(({ command }) => command)]);
  for (const [part, list] of rows) {
    const [wall, cpu] = ['wall', 'cpu'].map((what) => new Spread(list.map((one) => one[what])));
    report.line([part, -18], [wall.shown(1), 22], [cpu.shown(1), 22]);
    report.add('first_lock', { part, ms: wall, cpu_ms: cpu });
  }
  const wall = new Spread(totals.map((one) => one.wall));
  const ratio = new Spread(totals.map((one, round) => one.cpu / samples.SET[round].command.cpu));
  report.aim('import to first lock under 10 ms', wall.median < 10, `${wall.shown(1)} ms; CPU ${ratio.shown()} of a first SET NX PX`);
}

function sample(contender) {
  const program = join(import.meta.dirname, 'first-lock-worker.mjs');
  return JSON.parse(execFileSync(process.execPath, ['--expose-gc', program, contender], { encoding: 'utf8' }));
}

function total(parts) {
  return parts.reduce((sum, part) => ({ wall: sum.wall + part.wall, cpu: sum.cpu + part.cpu }));
}
