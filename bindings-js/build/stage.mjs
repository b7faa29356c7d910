// `stage.mjs <directory>`: copies everything that is published to the directory.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const target = resolve(process.argv[2]);
process.chdir(dirname(import.meta.dirname));
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });

// Users don't need our development tools and scripts.
const { devDependencies, scripts, ...manifest } = JSON.parse(readFileSync('package.json', 'utf8'));
writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
cpSync('dist', join(target, 'dist'), { recursive: true });
cpSync('README.md', join(target, 'README.md'));
for (const licence of ['LICENSE-MIT', 'LICENSE-APACHE']) cpSync(join('..', licence), join(target, licence));
