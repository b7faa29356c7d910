// `transpile.mjs <lock.wasm>` lets jco translate the component to JavaScript in `generated/`, and fixes a problem that keeps it from
// running.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const jco = join(here, 'node_modules/.bin/jco');
const options = ['--instantiation', 'async', '--no-wasi-shim', '--no-typescript', '--quiet', '--out-dir', 'generated'];
execFileSync(jco, ['transpile', process.argv[2], ...options], { cwd: here, stdio: 'inherit' });

// In jco 1.35.0, a task that waits for the instance polls it in microtasks until it is free. The task that uses the instance may wait
// for a timer or a socket. Node handles these only when no microtask is left, so both tasks would wait forever. Polling once in each
// turn of the event loop fixes that.
const BUSY = /queueMicrotask\((\(\) => \{\s+this\.#lockHandoffScheduled = false;)/;
const file = join(here, 'generated/lock.js');
const text = readFileSync(file, 'utf8');
if (!BUSY.test(text)) throw new Error('jco has changed: check whether the tests pass without this fix, and remove it');
writeFileSync(file, text.replace(BUSY, 'setImmediate($1'));
