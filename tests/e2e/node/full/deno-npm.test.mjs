// Deno installs the package by an `npm:` specifier, without a package.json or node_modules. The registry is a small one on loopback.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';
import { parse } from './resp.mjs';

const project = join(import.meta.dirname, '..');
const platform = `${process.platform}-${process.arch}`;
const deno = [`@deno/${platform}-glibc/deno`, `@deno/${platform}/deno`].map((path) => join(project, 'node_modules', path)).find(existsSync);

let server, registry, directory;

before(async () => {
  [server, registry] = await Promise.all([startServer(), startRegistry()]);
  directory = mkdtempSync(join(tmpdir(), 'leasehold-deno-'));
});
after(async () => {
  registry?.close();
  if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  await server?.stop();
});

/** A registry with one package: the tarball that is installed here. */
async function startRegistry() {
  const installed = JSON.parse(readFileSync(join(project, 'node_modules/leasehold/package.json'), 'utf8'));
  const [, path] = /^file:(.*)$/.exec(JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')).dependencies.leasehold);
  const tarball = readFileSync(path);
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const http = createServer((request, response) => {
    if (request.url === '/leasehold.tgz') return response.end(tarball);
    if (request.url !== '/leasehold') return response.writeHead(404).end();
    const dist = { tarball: `http://127.0.0.1:${http.address().port}/leasehold.tgz`, integrity };
    const { version } = installed;
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ name: 'leasehold', 'dist-tags': { latest: version }, versions: { [version]: { ...installed, dist } } }));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return http;
}

async function run(program, ...flags) {
  const file = join(directory, 'program.mjs');
  writeFileSync(file, program);
  const env = {
    ...process.env, DENO_DIR: join(directory, 'cache'), DENO_NO_UPDATE_CHECK: '1', REDIS_PORT: `${server.port}`,
    NPM_CONFIG_REGISTRY: `http://127.0.0.1:${registry.address().port}`,
  };
  const { stdout } = await promisify(execFile)(deno, ['run', ...flags, file], { cwd: directory, timeout: 60_000, env });
  return stdout;
}

test('a test on a server in memory, with no permission at all', async () => {
  const program = `
    import { LockManager } from 'npm:leasehold';
    import { MemoryServer } from 'npm:leasehold/testing';
    const locks = new LockManager(new MemoryServer());
    console.log(await locks.mutex('door').run(({ name, fence }) => name + (fence > 0)));
    await locks.close();
  `;
  assert.equal(await run(program), 'doortrue\n');
});

test('a lock on a real server, over a connection of Deno', async () => {
  const program = `
    import { LockManager } from 'npm:leasehold';
    const socket = await Deno.connect({ hostname: '127.0.0.1', port: Number(Deno.env.get('REDIS_PORT')) });
    const waiting = [];
    const locks = new LockManager({
      call: (words) => new Promise((resolve, reject) => {
        waiting.push({ resolve, reject });
        const frame = words.map((word) => '$' + new TextEncoder().encode(word).length + '\\r\\n' + word + '\\r\\n').join('');
        socket.write(new TextEncoder().encode('*' + words.length + '\\r\\n' + frame)).catch(reject);
      }),
    });
    (async () => {
      let text = '';
      for await (const chunk of socket.readable.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        for (let parsed = parse(text, 0); parsed; parsed = parse(text, 0)) {
          text = text.slice(parsed.end);
          const { resolve, reject } = waiting.shift();
          parsed.value instanceof Error ? reject(parsed.value) : resolve(parsed.value);
        }
      }
    })().catch(() => {});
    const lease = await locks.mutex('door').acquire();
    console.log(lease.fence > 0, await locks.mutex('door').tryAcquire(), await lease.release());
    await locks.close();
    socket.close();
    ${parse}
  `;
  assert.equal(await run(program, '--allow-net=127.0.0.1', '--allow-env=REDIS_PORT'), 'true null released\n');
});
