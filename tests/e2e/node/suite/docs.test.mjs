// Runs the JavaScript of the READMEs and of the manual as printed, with a client, a database and an object store around it.
//
// A block marked `js no_run` needs servers that the tests don't have, so it is only parsed.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const project = join(import.meta.dirname, '..');
const execute = promisify(execFile);
const pages = ['README.md', 'README.project.md', ...readdirSync(join(project, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];
const directory = mkdtempSync(join(project, 'printed-'));
let server;

before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** Declarations that a block may use without making them. They are written before the block, in this order. */
const AROUND = {
  Redis: `import { Redis } from 'ioredis';`,
  LockManager: `import { LockManager } from 'leasehold';`,
  redis: `const redis = new Redis(process.env.REDIS_URL);`,
  locks: `const locks = new LockManager(redis);`,
  invoice: `const invoice = {};`,
  charge: `const charge = async () => console.log('charged');`,
  db: `const db = { async save(_, { fence, signal }) { console.log('saved with fence', fence, signal.aborted); } };`,
  objectUrl: `const objectUrl = 'https://bucket.example/report';`,
  send: `
    // The part of an object store that the block needs. Another client writes once between a read and a write.
    const stored = { text: 'one line\\n', fence: '0', etag: 1, disturbed: false };
    const send = async (url, { method = 'GET', headers = {}, body } = {}) => {
      if (method === 'GET') {
        return new Response(stored.text, { headers: { etag: String(stored.etag), 'x-amz-meta-fence': stored.fence } });
      }
      if (!stored.disturbed) Object.assign(stored, { disturbed: true, etag: 2, text: stored.text + 'theirs\\n' });
      if (headers['if-match'] !== String(stored.etag)) return new Response(null, { status: 412 });
      Object.assign(stored, { text: body, fence: headers['x-amz-meta-fence'], etag: stored.etag + 1 });
      return new Response(null);
    };`,
};
const NEEDS = { locks: ['redis', 'LockManager'], redis: ['Redis'] };

/** Code that runs after some blocks, and the output that some blocks must print. */
const ASKED = {
  'function update': `
    console.log(JSON.stringify(stored.text));
    await update(send, objectUrl, 1, (text) => text).catch((error) => console.log(error.message));`,
};
const PRINTED = {
  'function update': /^"one line\\ntheirs\\none more line\\n"\nfence 1 is stale: \d+ has been here\n$/,
  'RETURNING balance': /^70\nfence 1 is stale: a later holder was here\n$/,
  'I hold the lock': /^I hold the lock, with fence \d{16}\n$/,
  'holdCount': /^held 2 times\n$/,
  'db.save': /^saved with fence \d{16} false\n$/,
};
const of = (table, code) => Object.entries(table).find(([mark]) => code.includes(mark))?.[1];

for (const page of pages) {
  for (const [place, { mark, code }] of blocks(page).entries()) {
    const name = `${page}, block ${place + 1}`;
    const file = join(directory, `${basename(page, '.md')}-${place + 1}.${mark === 'ts' ? 'ts' : 'mjs'}`);
    if (mark === 'ts') test(`${name} is TypeScript`, () => compiles(file, code));
    else if (mark === 'js no_run') test(`${name} can be parsed`, () => parses(file, code));
    else test(`${name} runs as printed`, async () => assert.match(await runs(file, code, of(ASKED, code)), of(PRINTED, code) ?? /^/));
  }
}

test('the manual has blocks that run', () => {
  assert.ok(pages.flatMap(blocks).filter(({ mark }) => mark === 'js').length >= 15);
});

test('the block handles an error as the README says', async () => {
  const { code } = blocks('README.md').find((block) => block.code.includes(`'busy'`));
  const held = `const holder = await new LockManager(redis).mutex('invoice:42').acquire();\n`;
  const busy = code.replace('try {', `${held}try {`).replace(`'5s'`, `'50ms'`);
  assert.match(await runs(join(directory, 'busy.mjs'), busy, 'await holder.release();'), /^in use: waited \d+ ms\n$/);
});

/** The JavaScript and TypeScript blocks of a page. */
function blocks(page) {
  const text = readFileSync(join(project, page), 'utf8');
  return [...text.matchAll(/^```(js no_run|js|ts)\n([^]*?)^```$/gm)].map(([, mark, code]) => ({ mark, code }));
}

/** The block, with the declarations that it uses and does not make, and the code that runs after it. */
function program(code, more) {
  const bare = code.replace(/'[^'\n]*'|`[^`]*`/g, '').replace(/\/\/.*$/gm, '');
  const used = new Set();
  const use = (name) => {
    if (declares(code, name)) return;
    used.add(name);
    NEEDS[name]?.forEach(use);
  };
  for (const name of Object.keys(AROUND)) if (new RegExp(`\\b${name}\\b`).test(`${bare}\n${more}`)) use(name);
  return [...Object.keys(AROUND).filter((name) => used.has(name)).map((name) => AROUND[name]), code, more, 'process.exit(0);'].join('\n');
}

function declares(code, name) {
  return new RegExp(`^(import \\{[^}]*\\b${name}\\b|const ${name}\\b|(async )?function ${name}\\b)`, 'm').test(code);
}

/** Runs a block and the code after it, and returns what they printed. */
async function runs(file, code, more = '') {
  writeFileSync(file, program(code, more));
  await server.cli('FLUSHALL');
  const { stdout } = await execute(process.execPath, [file], { cwd: project, env: { ...process.env, REDIS_URL: server.url }, timeout: 600_000 });
  return stdout;
}

async function parses(file, code) {
  writeFileSync(file, code);
  await execute(process.execPath, ['--check', file], { timeout: 600_000 });
}

async function compiles(file, code) {
  writeFileSync(file, `import { LockManager } from 'leasehold';\ndeclare const locks: LockManager;\n${code}\nexport {};\n`);
  const words = ['--module', 'node16', '--target', 'es2022', '--lib', 'es2022,esnext.disposable', '--strict', '--types', 'node', '--noEmit'];
  await execute(process.execPath, ['node_modules/typescript/bin/tsc', ...words, file], { cwd: project, timeout: 600_000 })
    .catch((error) => assert.fail(error.stdout));
}
