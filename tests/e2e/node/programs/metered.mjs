// A service whose metrics Prometheus scrapes: `metered.mjs PORT`, with the port of a server of its own. It prints the same scrapes as
// `tests/e2e/live/src/bin/live-metered.rs` does in Rust.
import { setTimeout } from 'node:timers/promises';
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { instrument } from 'leasehold/opentelemetry';
import { GENEROUS, until } from '../support/wait.mjs';

const exporter = new PrometheusExporter({ preventServerStart: true });
// The exporter doesn't add the unit, as Prometheus itself and the collector do.
const views = ['wait', 'hold'].map((time) => ({ instrumentName: `leasehold.${time}`, name: `leasehold_${time}_seconds` }));
const meterProvider = new MeterProvider({ readers: [exporter], views });
const render = async () => new PrometheusSerializer().serialize((await exporter.collect()).resourceMetrics);
const scrape = async () => console.log(`# scrape\n${await render()}`);

const port = Number(process.argv[2]);
const [redis, operator] = [new Redis(port, { retryStrategy: () => 20 }), new Redis(port)];
redis.on('error', () => {});
await operator.ping();
const locks = new LockManager(redis, GENEROUS);
instrument(locks, { meterProvider });
let reconnects = 0;
locks.on('reconnect', () => reconnects++);
const lock = locks.mutex('metered');
await scrape();

await (await lock.acquire()).release();
await scrape();

const held = await lock.acquire();
const waiting = lock.acquire();
await scrape();
// Longer than the alert about waits allows.
await setTimeout(6_000);
await held.release();
const lease = await waiting;
for (let times = 1; times <= 6; times++) {
  await operator.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await until(`reconnect ${times}`, async () => await lease.verify().catch(() => false) && reconnects === times);
}
await operator.del('metered');
await lease.verify();
await lease.release();
await operator.call('CLIENT', 'PAUSE', '600000');
const granted = await locks.mutex('metered', { wait: '1s' }).acquire().catch(() => undefined);
if (granted) throw new Error('a server that is paused granted the lock');
await scrape();
process.exit(0);
