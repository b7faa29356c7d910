// `run.mjs <tarball> [--full]`: installs the packed package into a throw-away project, and runs these tests there.
//
// LEASEHOLD_SERVER names the server's program, LEASEHOLD_WORKERS the directory of the Rust workers.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [tarball, ...flags] = process.argv.slice(2);
const here = import.meta.dirname;
const repository = resolve(here, '../..');
const suites = flags.includes('--full') ? ['suite', 'full'] : ['suite'];

// Outside the repository, whose own node_modules must not be found.
const project = mkdtempSync(join(tmpdir(), 'leasehold-project-'));
process.on('exit', () => rmSync(project, { recursive: true, force: true }));

cpSync(here, project, { recursive: true });
cpSync(join(repository, 'examples/node'), join(project, 'examples'), { recursive: true });
cpSync(join(repository, 'bindings-js/README.md'), join(project, 'README.md'));
install(project, ['package.json', 'examples/package.json', ...(flags.includes('--full') ? ['full/package.json'] : [])]);

const files = suites.flatMap((suite) => readdirSync(join(project, suite))
  .filter((file) => file.endsWith('.test.mjs')).map((file) => join(suite, file)));
const { status } = spawnSync(process.execPath, ['--test', '--test-reporter=spec', '--test-timeout=120000', ...files], { cwd: project, stdio: 'inherit' });
process.exitCode = status ?? 1;

/** Installs what these manifests ask for, with the tarball in the place of the published package. */
function install(project, manifests) {
  const wanted = manifests.map((file) => JSON.parse(readFileSync(join(project, file), 'utf8')));
  const dependencies = Object.assign({}, ...wanted.map((manifest) => manifest.dependencies));
  dependencies.leasehold = `file:${resolve(tarball)}`;
  writeFileSync(join(project, 'package.json'), JSON.stringify({ ...wanted[0], dependencies }, null, 2));
  for (const file of manifests.slice(1)) rmSync(join(project, file));
  const { status } = spawnSync('npm', ['install', '--loglevel=error', '--no-audit', '--no-fund', '--prefer-offline'], {
    cwd: project, stdio: 'inherit',
  });
  if (status !== 0) throw new Error('the package could not be installed');
}
