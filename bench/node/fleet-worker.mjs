// One process of the fleet. It connects, reports that it is ready, waits for the start, works, and reports all its turns at the end.
import { once } from 'node:events';
import { LEASEHOLD, PEERS, connect, disconnect } from './contenders.mjs';
import { work } from './work.mjs';

// All tasks connect, subscribe and queue up during the warm-up, before the measurement begins.
const TIMES = { warmUp: 1500, duration: 6000, hold: () => Math.random() * 5 };

const [name, tasks] = process.argv.slice(2);
const contender = [LEASEHOLD, ...PEERS].find((one) => one.name === name);
const redis = await connect();
const locks = Array.from({ length: Number(tasks) }, () => contender.lock(redis, `fleet-${name}`));
process.send('ready');
await once(process, 'message');
const { turns } = await work(locks, TIMES);
await disconnect(redis);
process.send({ turns, duration: TIMES.duration }, () => process.disconnect());
