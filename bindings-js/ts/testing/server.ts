/** A real server for tests, on a free loopback port. */

import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { until } from './expect.js';

/** The servers that run. They end with the tests, however those end. */
const running = new Set<ChildProcess>();
/** A directory for the files of the servers and of the tests. */
export const directory = mkdtempSync(join(tmpdir(), 'leasehold-'));
process.once('exit', () => {
  running.forEach((child) => child.kill('SIGKILL'));
  rmSync(directory, { recursive: true, force: true });
});

export class Server {
  readonly port: number;
  readonly #options: readonly string[];
  #process: ChildProcess | undefined;
  #isPaused = false;

  private constructor(port: number, options: readonly string[]) {
    this.port = port;
    this.#options = options;
  }

  /** Starts a server. `options` are options of the server, such as `'--cluster-enabled', 'yes'`, optionally after a configuration file. */
  static async start(...options: string[]): Promise<Server> {
    for (let attempt = 0; attempt < 20; attempt++) {
      const server = new Server(await freePort(), options);
      if (await server.#launch()) return server;
    }
    throw new Error('no server could be started');
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Whether it is neither dead nor paused. */
  get isRunning(): boolean {
    return this.#process !== undefined && !this.#isPaused;
  }

  /** Starts the server again on the same port, without its data. Waits if another program has the port. */
  async restart(): Promise<void> {
    await this.kill();
    await until(() => this.#launch());
  }

  /** Starts the server. Returns whether it runs: another program may have taken the port first. */
  async #launch(): Promise<boolean> {
    // Replication leaves a file with the data.
    const data = `${this.port}.rdb`;
    rmSync(join(directory, data), { force: true });
    const options = ['--port', `${this.port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', directory, '--dbfilename', data, '--cluster-config-file', `${this.port}.conf`];
    const isFile = this.#options[0]?.startsWith('--') === false;
    const words = isFile ? [this.#options[0] ?? '', ...options, ...this.#options.slice(1)] : [...options, ...this.#options];
    const child = spawn(program(), words, { stdio: 'ignore' });
    child.unref();
    running.add(child);
    this.#process = child;
    while (child.exitCode === null) {
      if (await answers(this.port, child.pid, this.#password())) return true;
      await sleep(10);
    }
    running.delete(child);
    return false;
  }

  #password(): string | undefined {
    const at = this.#options.indexOf('--requirepass');
    return at < 0 ? undefined : this.#options[at + 1];
  }

  /** Kills the server, as in a crash. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    this.#isPaused = false;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.ref();
    child.kill('SIGKILL');
    await exited;
    running.delete(child);
  }

  /** Pauses the server: it stops answering and keeps its connections open. */
  pause(): void {
    this.#isPaused = true;
    this.#process?.kill('SIGSTOP');
  }

  resume(): void {
    this.#isPaused = false;
    this.#process?.kill('SIGCONT');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

/** The server program: `LEASEHOLD_SERVER`, else one on the path, else one that `cargo xtask test` has downloaded. */
function program(): string {
  const named = process.env['LEASEHOLD_SERVER'];
  if (named !== undefined && named !== '') return named;
  const directories = (process.env['PATH'] ?? '').split(delimiter);
  const names = directories.flatMap((directory) => ['redis-server', 'valkey-server'].map((name) => join(directory, name)));
  const fetched = fileURLToPath(new URL('../../../target/servers/debian/redis-server', import.meta.url));
  const found = [...names, fetched].find((path) => existsSync(path));
  if (found === undefined) throw new Error('no server: set LEASEHOLD_SERVER=/path/to/redis-server');
  return found;
}

/**
 * A free port below the range that systems use for outgoing connections. So a restarted server finds its port still free: no test of this
 * process gets it, and other processes are most likely elsewhere in the range.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < PORTS; tries++) {
    const port = FIRST_PORT + (nextPort++ % PORTS);
    // A server of a cluster also listens on the second one.
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port;
  }
  throw new Error('no free port');
}

const FIRST_PORT = 10_100;
const PORTS = 9_900;
let nextPort = randomInt(PORTS);

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Whether this process answers on the port, and not another one that took the port before. */
function answers(port: number, pid: number | undefined, password: string | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const login = password === undefined ? '' : `AUTH ${password}\r\n`;
    const socket = connect(port, '127.0.0.1', () => socket.write(`${login}INFO server\r\n`));
    const finish = (isOurs: boolean): void => (socket.destroy(), resolve(isOurs));
    let text = '';
    socket.on('data', (bytes) => {
      text += bytes.toString();
      const found = /process_id:(\d+)\r/.exec(text)?.[1];
      if (found !== undefined) finish(found === `${pid}`);
    });
    socket.once('close', () => finish(false));
    socket.once('error', () => finish(false));
    socket.setTimeout(10_000, () => finish(false));
  });
}
