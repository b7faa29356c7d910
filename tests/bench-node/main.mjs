// `main.mjs [--json FILE]`: what a lock costs in Node, beside bare calls and other libraries, in one run.
//
// The server is at REDIS_URL, and is this benchmark's own. What counts are the ratios: machines differ.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { measureFleet } from './fleet.mjs';
import { measureHotKey } from './hot-key.mjs';
import { Report } from './report.mjs';
import { measureUncontended } from './uncontended.mjs';

const { values } = parseArgs({ options: { json: { type: 'string' } } });
const report = new Report();
await measureUncontended(report);
await measureHotKey(report);
await measureFleet(report);
report.printAims();
if (values.json) writeFileSync(values.json, `${JSON.stringify(report.content, null, 2)}\n`);
