// Runs the unit tests of ts/ with Node's test runner. It lists the files, because Node 20 doesn't support patterns.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

const files = process.argv.length > 2
  ? process.argv.slice(2)
  : readdirSync('ts', { recursive: true }).filter((file) => file.endsWith('.test.ts')).map((file) => `ts/${file}`).sort();
// A client library that keeps its closed connections must not keep the whole run: a file's process ends with its tests, and after
// ten minutes in any case. `exit.test.ts` and `process.test.ts` test that users' processes end by themselves.
const limits = ['--test-force-exit', '--test-timeout=600000'];
// Most tests wait for a server or a timeout, so more files run at once than Node starts by itself on two cores.
const flags = ['--expose-gc', '--import', 'tsx', '--test', '--test-concurrency=3', '--test-reporter=spec'];
const { status } = spawnSync(process.execPath, [...flags, ...limits, ...files], { stdio: 'inherit' });
process.exit(status ?? 1);
