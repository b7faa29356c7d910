// A reporter of Node's test runner: it prints the ten files that took the most time, for `cargo xtask test`.
import { join, relative, resolve } from 'node:path';

const repository = join(import.meta.dirname, '../..');

export default async function* slowest(events) {
  const files = [];
  for await (const { type, data } of events) {
    // For the runner, a file is a test too. The test's name is the file's path.
    if (type === 'test:complete' && data.file !== undefined && resolve(data.name) === data.file) files.push([data.file, data.details.duration_ms]);
    // All tests have ended. After the last event, the runner exits without waiting for reporters.
    if (type !== 'test:diagnostic' || data.nesting !== 0 || !data.message.startsWith('tests ')) continue;
    for (const [file, ms] of files.sort(([, a], [, b]) => b - a).slice(0, 10)) yield `slowest: ${(ms / 1_000).toFixed(1)} s ${source(file)}\n`;
  }
}

/** The source of a file that `transpile.mjs` has made. */
function source(file) {
  return relative(repository, file).replace(/^bindings-js\/target\//, 'bindings-js/ts/').replace(/\.js$/, '.ts');
}
