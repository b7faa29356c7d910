// `run.mjs <tarball> [--full]` installs the packed package in a temporary project and runs these tests there.
// With `--full` it also runs them in newer versions of Node and in the other runtimes.
//
// LEASEHOLD_SERVER is the path of the server, LEASEHOLD_PROMTOOL that of Prometheus' `promtool`, and LEASEHOLD_WORKERS the directory of
// the Rust workers.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [tarball, ...flags] = process.argv.slice(2);
const full = flags.includes('--full');
const here = import.meta.dirname;
const repository = resolve(here, '../../..');
const NEWER = full ? ['22', '24', '26'] : [];

// Outside the repository, so that Node doesn't find the repository's node_modules.
const project = mkdtempSync(join(tmpdir(), 'leasehold-project-'));
process.on('exit', () => rmSync(project, { recursive: true, force: true }));

cpSync(here, project, { recursive: true });
cpSync(join(repository, 'examples/node'), join(project, 'examples'), { recursive: true });
cpSync(join(repository, 'examples/worker'), join(project, 'worker'), { recursive: true });
cpSync(join(repository, 'bindings-js/README.md'), join(project, 'README.md'));
cpSync(join(repository, 'README.md'), join(project, 'README.project.md'));
cpSync(join(repository, 'docs/grafana.json'), join(project, 'docs/grafana.json'));
for (const name of readdirSync(join(repository, 'docs')).filter((name) => name.endsWith('.md'))) cpSync(join(repository, 'docs', name), join(project, 'docs', name));
install(project, ['package.json', 'examples/package.json', ...(full ? ['full/package.json'] : [])]);

test('suite', process.execPath);
for (const version of NEWER) test('suite', join(project, 'node_modules', `node-${version}`, 'bin/node'));
// Miniflare needs a newer Node than 20.
if (full) test('full', join(project, 'node_modules/node-24/bin/node'));

/** Runs the tests of a directory with this Node. */
function test(directory, node) {
  console.log(`\n${directory} under ${execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()}`);
  const files = readdirSync(join(project, directory)).filter((file) => file.endsWith('.test.mjs'));
  // 45 minutes, because the machine may be busy.
  const words = ['--test', '--test-reporter=spec', '--test-timeout=2700000', ...files.map((file) => join(directory, file))];
  const { status } = spawnSync(node, words, { cwd: project, stdio: 'inherit' });
  process.exitCode ||= status ?? 1;
}

/** Installs the dependencies of these manifests, with the tarball instead of the published package. */
function install(project, manifests) {
  const wanted = manifests.map((file) => JSON.parse(readFileSync(join(project, file), 'utf8')));
  const dependencies = Object.assign({}, ...wanted.map((manifest) => manifest.dependencies));
  dependencies.leasehold = `file:${resolve(tarball)}`;
  for (const version of NEWER) dependencies[`node-${version}`] = `npm:node-${process.platform}-${process.arch}@${version}`;
  writeFileSync(join(project, 'package.json'), JSON.stringify({ ...wanted[0], dependencies }, null, 2));
  for (const file of manifests.slice(1)) rmSync(join(project, file));
  const { status } = spawnSync('npm', ['install', '--loglevel=error', '--no-audit', '--no-fund', '--prefer-offline'], {
    cwd: project, stdio: 'inherit',
  });
  if (status !== 0) throw new Error('the package could not be installed');
}
