// Runs the unit tests of ts/ by Node's own runner. The files are listed here: Node 20 takes no patterns.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

const files = process.argv.length > 2
  ? process.argv.slice(2)
  : readdirSync('ts', { recursive: true }).filter((file) => file.endsWith('.test.ts')).map((file) => `ts/${file}`).sort();
const { status } = spawnSync(process.execPath, ['--expose-gc', '--import', 'tsx', '--test', '--test-reporter=spec', ...files], { stdio: 'inherit' });
process.exit(status ?? 1);
