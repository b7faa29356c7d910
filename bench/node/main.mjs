// `main.mjs [--json FILE] [--quick] [first-lock] [alone] [runtimes] [uncontended] [hot-key] [fleet]` measures what a lock costs in Node, compared with bare
// commands and other libraries in the same run. Without a name it runs all sections. With `--quick` it measures one row of ours and
// one of a peer.
//
// The server at REDIS_URL must not be used by anything else. Compare the ratios, because machines differ.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { measureAlone } from './alone.mjs';
import { measureFirstLock } from './first-lock.mjs';
import { measureFleet } from './fleet.mjs';
import { measureHotKey } from './hot-key.mjs';
import { Report } from './report.mjs';
import { measureRuntimes } from './runtimes.mjs';
import { measureUncontended } from './uncontended.mjs';

const SECTIONS = { 'first-lock': measureFirstLock, alone: measureAlone, runtimes: measureRuntimes, uncontended: measureUncontended, 'hot-key': measureHotKey, fleet: measureFleet };

const { values, positionals } = parseArgs({ options: { json: { type: 'string' }, quick: { type: 'boolean' } }, allowPositionals: true });
const unknown = positionals.filter((name) => !(name in SECTIONS));
if (unknown.length > 0) throw new Error(`unknown section ${unknown}: choose from ${Object.keys(SECTIONS)}`);
const report = new Report();
for (const [name, measure] of Object.entries(SECTIONS)) {
  if (positionals.length === 0 || positionals.includes(name)) await measure(report, values.quick);
}
report.printAims();
if (values.json) writeFileSync(values.json, `${JSON.stringify(report.content, null, 2)}\n`);
