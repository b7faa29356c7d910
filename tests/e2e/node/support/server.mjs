import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { watch } from './process.mjs';
import { until } from './wait.mjs';

const PROGRAM = process.env.LEASEHOLD_SERVER ?? 'redis-server';

/** Starts a server on a free loopback port, without persistence. It ends with the test's process, however that ends. */
export async function startServer(...options) {
  const server = new Server(options);
  for (let attempt = 0; attempt < 20; attempt++) {
    server.port = await freePort();
    if (await server.launch()) return server;
  }
  throw new Error(`${PROGRAM} did not start`);
}

/** Starts a primary with a replica, and a sentinel that knows the primary as `main`. */
export async function startSentinel() {
  const primary = await startServer('--repl-diskless-sync-delay', '0');
  const replica = await startServer('--replicaof', `127.0.0.1 ${primary.port}`);
  await until('the replica has the data', async () => (await replica.cli('INFO', 'replication')).includes('master_link_status:up'));
  const directory = mkdtempSync(join(tmpdir(), 'leasehold-sentinel-'));
  const settings = [`monitor main 127.0.0.1 ${primary.port} 1`, 'down-after-milliseconds main 300', 'failover-timeout main 3000'];
  const file = join(directory, 'sentinel.conf');
  writeFileSync(file, settings.map((line) => `sentinel ${line}\n`).join(''));
  const sentinel = await startServer(file, '--sentinel');
  const stop = async () => {
    primary.resume();
    await Promise.all([sentinel, replica, primary].map((server) => server.stop()));
    rmSync(directory, { recursive: true, force: true });
  };
  await until('the sentinel knows the replica', async () => (await sentinel.cli('SENTINEL', 'REPLICAS', 'main')).length === 1);
  return { primary, replica, sentinel, stop };
}

class Server {
  port = 0;
  #options;
  #process;
  #client;

  constructor(options) {
    this.#options = options;
  }

  pause() {
    this.#process.pause();
  }

  resume() {
    this.#process.resume();
  }

  get url() {
    return `redis://127.0.0.1:${this.port}/`;
  }

  /** Runs one command. */
  async cli(...words) {
    return this.#client.call(...words);
  }

  /** Kills the server and starts it again, empty, on the same port. */
  async restart() {
    await this.stop();
    if (!await this.launch()) throw new Error('the server did not start again');
  }

  async stop() {
    this.#client.disconnect();
    await this.#process.kill();
  }

  /** Starts the server. Returns whether it runs and is ours: another process may have taken the port first. */
  async launch() {
    const directory = mkdtempSync(join(tmpdir(), 'leasehold-server-'));
    const [file, ...others] = this.#options[0]?.startsWith('/') ? this.#options : [undefined, ...this.#options];
    const options = [...(file ? [file] : []), '--bind', '127.0.0.1', '--port', `${this.port}`, '--save', '', '--appendonly', 'no', '--dir', directory, ...others];
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

const PORTS = 12_000;
let nextPort = Math.floor(Math.random() * PORTS);

/** Finds a free port, below the range that systems use for outgoing connections. It is not given out again, so that a restart finds it free. */
async function freePort() {
  for (;;) {
    const port = 20_000 + (nextPort++ % PORTS);
    const probe = createServer();
    const free = await new Promise((resolve) => {
      probe.once('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => resolve(true));
    });
    await new Promise((resolve) => probe.close(resolve));
    if (free) return port;
  }
}
