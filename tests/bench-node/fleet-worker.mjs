// One process of the fleet: connects, says so, waits for the word, works, and tells every turn at the end.
import { once } from 'node:events';
import { LEASEHOLD, PEERS, connect, disconnect } from './contenders.mjs';
import { work } from './work.mjs';

// Everybody connects, subscribes and queues up before the counting begins.
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
