// Runs the unit tests of ts/ with Node's test runner: `test.mjs [FILE...]`. It lists the files, because Node 20 doesn't support
// patterns.
import { spawnSync } from 'node:child_process';
import { sourcesIn, transpile, transpiled } from './transpile.mjs';

const named = process.argv.slice(2);
const files = named.length > 0 ? named : sourcesIn('ts').filter((file) => file.endsWith('.test.ts'));
transpile();
// A client library that keeps closed connections must not block the whole run. So a file's process ends with its tests, and after
// 45 minutes in any case. `exit.test.ts` and `process.test.ts` test that users' processes end by themselves.
const limits = ['--test-force-exit', '--test-timeout=2700000'];
// Most tests wait for a server, so more files run at once than Node starts by itself on two cores.
const flags = ['--expose-gc', '--enable-source-maps', '--test', '--test-concurrency=3'];
const reporters = ['spec', new URL('slowest.mjs', import.meta.url).href];
flags.push(...reporters.flatMap((reporter) => [`--test-reporter=${reporter}`, '--test-reporter-destination=stdout']));
process.exitCode = spawnSync(process.execPath, [...flags, ...limits, ...files.map(transpiled)], { stdio: 'inherit' }).status ?? 1;
