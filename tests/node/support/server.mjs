import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { watch } from './process.mjs';

const PROGRAM = process.env.LEASEHOLD_SERVER ?? 'redis-server';

/** A server on a free loopback port, without persistence; it ends with the test's process, however that ends. */
export async function startServer() {
  const server = new Server();
  for (let attempt = 0; attempt < 20; attempt++) {
    server.port = await freePort();
    if (await server.launch()) return server;
  }
  throw new Error(`${PROGRAM} does not start`);
}

class Server {
  port = 0;
  #process;
  #client;

  get url() {
    return `redis://127.0.0.1:${this.port}/`;
  }

  /** Runs one command. */
  async cli(...words) {
    return this.#client.call(...words);
  }

  /** Kills it and starts it again on the same port, empty. */
  async restart() {
    await this.stop();
    if (!await this.launch()) throw new Error('the server does not start again');
  }

  async stop() {
    this.#client.disconnect();
    await this.#process.kill();
  }

  /** Whether it runs now, and is ours: somebody may have taken the port before us. */
  async launch() {
    const directory = mkdtempSync(join(tmpdir(), 'leasehold-server-'));
    const options = ['--bind', '127.0.0.1', '--port', `${this.port}`, '--save', '', '--appendonly', 'no', '--dir', directory];
    const child = spawn(PROGRAM, options, { stdio: 'ignore', detached: true });
    this.#process = watch(child, directory);
    this.#client = new Redis(this.port, { lazyConnect: true, retryStrategy: () => 20, maxRetriesPerRequest: null });
    this.#client.on('error', () => {});
    this.#client.connect().catch(() => {});
    const info = await Promise.race([this.#client.info('server'), this.#process.ended]);
    if (typeof info === 'string' && info.includes(`process_id:${child.pid}\r`)) return true;
    await this.stop();
    if (info instanceof Error) throw info;
    return false;
  }
}

/** A port that nobody listens on, below the range that systems give to outgoing connections. */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const probe = createServer();
    const free = await new Promise((resolve) => {
      probe.once('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => resolve(true));
    });
    await new Promise((resolve) => probe.close(resolve));
    if (free) return port;
  }
}
