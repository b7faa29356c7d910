import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { watch } from './process.mjs';
import { soon } from './wait.mjs';

const NODE = [process.execPath, join(import.meta.dirname, '../programs/worker.mjs')];
const RUST = process.env.LEASEHOLD_WORKERS && [join(process.env.LEASEHOLD_WORKERS, 'live-worker')];

/** The commands of the available workers, by language. */
export const LANGUAGES = { Node: NODE, ...(RUST && { Rust: RUST }) };

/** Starts a worker process, which acquires at once, obeys orders and reports what happens: see `programs/worker.mjs`. */
export function startWorker([program, ...prefix], server, name, { mode = 'write', ttl, claimWindow, counter }) {
  const words = [...prefix, `${server.port}`, mode, name, `${ttl}`, `${claimWindow}`, ...(counter ? [`${counter.port}`] : [])];
  return new Worker(spawn(program, words, { stdio: ['pipe', 'pipe', 'inherit'], detached: true }));
}

/** A child process that takes orders and reports, one line each. */
export class Worker {
  #child;
  #lines = [];
  #waiting = [];

  constructor(child) {
    this.#child = child;
    this.process = watch(child);
    const told = (line) => this.#waiting.length > 0 ? this.#waiting.shift()(line) : this.#lines.push(line);
    createInterface({ input: child.stdout }).on('line', told).on('close', () => told('it has ended'));
  }

  /** The next report, which should come soon. */
  async report() {
    return soon('a report of the worker', this.next());
  }

  /** The next report, however long it takes. */
  async next() {
    return this.#lines.shift() ?? new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Sends an order. */
  order(order) {
    this.#child.stdin.write(`${order}\n`);
  }

  /** Lets the worker end, and waits for that. */
  async end() {
    this.#child.stdin.end();
    return soon('the end of a worker', this.process.ended);
  }
}
