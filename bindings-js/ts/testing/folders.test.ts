/** The sources' folders have borders: imports between them point one way, and inside a folder no cycle forms. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, sep } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

/** Each folder may import the ones after it. `.` is `index.ts`, the entry point. `adapters`, `nestjs` and `dropins` have entry points that use only `.` and `support`, `memory` is `leasehold/testing`, and `transactions` is `leasehold/without-scripts`. */
const FOLDERS = ['adapters', 'nestjs', 'dropins', 'transactions', 'memory', 'server', '.', 'api', 'quorum', 'client', 'renewer', 'engine', 'connections', 'support'];

/** The files that each file imports. Type imports count too. Paths are relative to ts/. */
type Imports = ReadonlyMap<string, readonly string[]>;

test('every_import_between_folders_points_one_way_and_names_an_index', () => {
  assert.deepEqual(borderProblems(sources()), []);
});

test('no_files_import_each_other_in_a_circle', () => {
  assert.deepEqual(cycles(sources()), []);
});

test('a_broken_border_is_found', () => {
  const imports: Imports = new Map([
    ['index.ts', ['api/lock.ts', 'support/errors.ts']],
    ['api/lock.ts', ['client/index.ts', 'client/client.ts', 'support/errors.ts', 'unknown/file.ts']],
    ['client/index.ts', ['client/client.ts']],
    ['client/client.ts', ['api/lock.ts', 'testing/server.ts']],
    ['support/errors.ts', ['index.ts']],
  ]);
  assert.deepEqual(borderProblems(imports), [
    'api/lock.ts imports client/client.ts, but client/ has an index.ts',
    'api/lock.ts imports unknown/file.ts, against the order of the folders',
    'client/client.ts imports api/lock.ts, against the order of the folders',
    'client/client.ts imports testing/server.ts, against the order of the folders',
    'support/errors.ts imports index.ts, against the order of the folders',
  ]);
});

test('a_cycle_is_found', () => {
  const ring = (...files: string[]): [string, string[]][] => files.map((file, at) => [file, [files[(at + 1) % files.length] ?? '']]);
  assert.deepEqual(cycles(new Map([['api/a.ts', ['api/b.ts']], ['api/b.ts', []], ['api/d.ts', ['api/a.ts', 'api/b.ts']]])), []);
  assert.deepEqual(cycles(new Map([...ring('api/a.ts', 'api/b.ts'), ['api/d.ts', ['api/a.ts']]])), [['api/a.ts', 'api/b.ts']]);
  assert.deepEqual(cycles(new Map(ring('api/a.ts', 'api/b.ts', 'api/c.ts', 'api/d.ts'))), [['api/a.ts', 'api/b.ts', 'api/c.ts', 'api/d.ts']]);
});

test('imports_of_every_form_are_read', () => {
  const text = `
    import { a, type B } from './a.js';
    import type {
      C,
    } from "../client/index.js";
    export { d } from './d.js';
    export * from './e.js';
    import './f.js';
    const g = await import('./g.js');
    type H = typeof import('./h.js').H;
    const i = require('./i.js');
    import { Redis } from 'ioredis';
  `;
  const found = ['api/a.ts', 'client/index.ts', 'api/d.ts', 'api/e.ts', 'api/f.ts', 'api/g.ts', 'api/h.ts', 'api/i.ts'];
  assert.deepEqual(importsOf('api/x.ts', text).sort(), found.sort());
});

/** Reads the imports of all sources, except those of the tests, which may import everything. */
function sources(): Imports {
  const root = fileURLToPath(new URL('../../ts', import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).map((file) => file.split(sep).join('/'));
  const isSource = (file: string): boolean => file.endsWith('.ts') && !file.endsWith('.test.ts') && !file.startsWith('testing/');
  const found = files.filter(isSource).map((file): [string, string[]] => [file, importsOf(file, readFileSync(join(root, file), 'utf8'))]);
  assert.ok(found.length > 30, `only ${found.length} sources were found`);
  return new Map(found);
}

function importsOf(file: string, text: string): string[] {
  const paths = [...text.matchAll(/\b(?:from|import|require\(|import\()\s*['"](\.[^'"]*)['"]/g)].map(([, path = '']) => path);
  const targets = paths.map((path) => normalize(join(dirname(file), path)).split(sep).join('/').replace(/\.js$/, '.ts'));
  // The generated engine is outside of ts/. A `.wasm` file is not a source.
  return targets.filter((target) => !target.startsWith('../') && target.endsWith('.ts'));
}

function folderOf(file: string): string {
  return file.includes('/') ? (file.split('/')[0] ?? '') : '.';
}

function borderProblems(imports: Imports): string[] {
  const problems: string[] = [];
  for (const [file, targets] of imports) {
    for (const target of targets) {
      const [from, to] = [folderOf(file), folderOf(target)];
      if (from === to) continue;
      const index = `${to}/index.ts`;
      if (!FOLDERS.includes(from) || FOLDERS.indexOf(to) <= FOLDERS.indexOf(from)) {
        problems.push(`${file} imports ${target}, against the order of the folders`);
      } else if (imports.has(index) && target !== index) {
        problems.push(`${file} imports ${target}, but ${to}/ has an index.ts`);
      }
    }
  }
  return problems;
}

/** The groups of files that all reach each other. */
function cycles(imports: Imports): string[][] {
  const reached = new Map([...imports.keys()].map((file) => [file, reachableFrom(file, imports)]));
  const groups = [...imports.keys()].map((file) => [...(reached.get(file) ?? [])].filter((other) => reached.get(other)?.has(file)).sort());
  const found = groups.filter((group) => group.length > 0).map((group) => JSON.stringify(group));
  return [...new Set(found)].map((group) => JSON.parse(group) as string[]);
}

function reachableFrom(start: string, imports: Imports): Set<string> {
  const found = new Set<string>();
  const open = [start];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    for (const target of imports.get(file) ?? []) {
      if (found.has(target)) continue;
      found.add(target);
      open.push(target);
    }
  }
  return found;
}
