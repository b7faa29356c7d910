// Turns the sources and tests of ts/ into JavaScript, file by file, in target/. That folder is as deep as ts/, so paths to
// other files stay right. It takes half a second, and each process of the tests would take that long for itself.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { buildSync } from 'esbuild';

/** Where a file of ts/ is in JavaScript. */
export function transpiled(file) {
  return file.replace(/^(?:\.\/)?ts\//, 'target/').replace(/\.ts$/, '.js');
}

export function transpile() {
  const options = { format: 'esm', platform: 'node', target: 'node20', sourcemap: 'inline', sourcesContent: false, write: false, logLevel: 'error' };
  const files = sourcesIn('ts');
  const { outputFiles } = buildSync({ ...options, entryPoints: files, outbase: 'ts', outdir: 'target' });
  const scripts = buildSync({ ...options, entryPoints: ['generated/scripts.ts'], outdir: 'target' });
  // Beside its source, other tools would take it in place of the source.
  for (const { path, text } of outputFiles) write(path, text.replaceAll('../../generated/scripts.js', '../scripts.js'));
  for (const { path, text } of scripts.outputFiles) write(path, text);
}

export function sourcesIn(folder) {
  const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.ts') && !file.endsWith('.d.ts'));
  return files.map((file) => `${folder}/${file}`).sort();
}

/** Another run of the tests may use the file right now. */
function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  let found;
  try {
    found = readFileSync(path, 'utf8');
  } catch {
    // It is new.
  }
  if (found !== text) writeFileSync(path, text);
}
