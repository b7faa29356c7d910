// One process of the fleet. It connects, reports that it is ready, waits for the start, works, and reports at the end.
import { once } from 'node:events';
import { LEASEHOLD, PEERS, connect, disconnect } from './contenders.mjs';
import { work } from './work.mjs';

const [name, tasks, longestHold] = process.argv.slice(2);
// All tasks connect, subscribe and queue up during the warm-up, before the measurement begins.
const TIMES = { warmUp: 1500, duration: 6000, hold: longestHold === '0' ? undefined : () => Math.random() * Number(longestHold) };

const contender = [LEASEHOLD, ...PEERS].find((one) => one.name === name);
const redis = await connect();
const locks = Array.from({ length: Number(tasks) }, () => contender.lock(redis, `fleet-${name}-${tasks}`));
process.send('ready');
await once(process, 'message');
const { turns } = await work(locks, TIMES);
await disconnect(redis);
const all = turns.flat();
process.send({
  counts: turns.map((its) => its.length),
  waits: all.map((turn) => turn.granted - turn.asked),
  held: all.reduce((sum, turn) => sum + turn.released - turn.granted, 0),
  duration: TIMES.duration,
}, () => process.disconnect());
