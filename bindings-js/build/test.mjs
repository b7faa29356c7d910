// Runs the unit tests of ts/ with Node's test runner: `test.mjs [--timed] [FILE...]`.
//
// With `--timed` it runs the tests that measure, `*.timed.ts`, one file after the other. A file that fails runs once more. These tests
// need a quiet machine. No other test may fail because the machine is slow.
//
// It lists the files, because Node 20 doesn't support patterns.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

const words = process.argv.slice(2);
const isTimed = words.includes('--timed');
const named = words.filter((word) => word !== '--timed');
const files = named.length > 0 ? named : filesOf(isTimed ? '.timed.ts' : '.test.ts');
process.exitCode = isTimed ? measure(files) : run(files, 3);

/** Runs the files, `concurrency` of them at once. Returns the exit code. */
function run(files, concurrency) {
  // A client library that keeps closed connections must not block the whole run. So a file's process ends with its tests, and after
  // 45 minutes in any case. `exit.test.ts` and `process.test.ts` test that users' processes end by themselves.
  const limits = ['--test-force-exit', '--test-timeout=2700000'];
  // Most tests wait for a server, so more files run at once than Node starts by itself on two cores.
  const flags = ['--expose-gc', '--import', 'tsx', '--test', `--test-concurrency=${concurrency}`];
  const reporters = ['spec', new URL('slowest.mjs', import.meta.url).href];
  flags.push(...reporters.flatMap((reporter) => [`--test-reporter=${reporter}`, '--test-reporter-destination=stdout']));
  return spawnSync(process.execPath, [...flags, ...limits, ...files], { stdio: 'inherit' }).status ?? 1;
}

/** Runs each file alone. Returns the exit code. */
function measure(files) {
  if (files.length === 0) {
    console.log('There are no tests that measure: no file in ts/ is named *.timed.ts.');
    return 0;
  }
  console.log('These tests measure, so they need a quiet machine.');
  const failed = files.filter((file) => run([file], 1) !== 0);
  // `cargo xtask test` reads this line.
  if (failed.length > 0) console.log(`running once more: ${failed.join(' ')}`);
  return failed.filter((file) => run([file], 1) !== 0).length > 0 ? 1 : 0;
}

function filesOf(end) {
  return readdirSync('ts', { recursive: true }).filter((file) => file.endsWith(end)).map((file) => `ts/${file}`).sort();
}
