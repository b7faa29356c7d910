// `transpile.mjs <lock.wasm>`: has jco make JavaScript of the component, in `generated/`, and mends what keeps it from running.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const jco = join(here, 'node_modules/.bin/jco');
const options = ['--instantiation', 'async', '--no-wasi-shim', '--no-typescript', '--quiet', '--out-dir', 'generated'];
execFileSync(jco, ['transpile', process.argv[2], ...options], { cwd: here, stdio: 'inherit' });

// jco 1.35.0: whoever is next in line for the instance looks again and again, as a microtask, until it is free. Who has it may wait for a
// timer or a socket, which the event loop then never comes to. Looking once a turn of the loop is what it needs.
const BUSY = /queueMicrotask\((\(\) => \{\s+this\.#lockHandoffScheduled = false;)/;
const file = join(here, 'generated/lock.js');
const text = readFileSync(file, 'utf8');
if (!BUSY.test(text)) throw new Error('jco does this differently now: see whether the tests pass without this change, and remove it');
writeFileSync(file, text.replace(BUSY, 'setImmediate($1'));
