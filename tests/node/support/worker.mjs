import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { watch } from './process.mjs';
import { soon } from './wait.mjs';

const NODE = [process.execPath, join(import.meta.dirname, '../programs/worker.mjs')];
const RUST = process.env.LEASEHOLD_WORKERS && [join(process.env.LEASEHOLD_WORKERS, 'live-worker')];

/** The languages of the workers that are here. */
export const LANGUAGES = { Node: NODE, ...(RUST && { Rust: RUST }) };

/** Starts a process that acquires at once, does as it is told, and tells what happens to it: `programs/worker.mjs`. */
export function startWorker([program, ...prefix], server, name, { mode = 'write', ttl, claimWindow, counter }) {
  const words = [...prefix, `${server.port}`, mode, name, `${ttl}`, `${claimWindow}`, ...(counter ? [`${counter.port}`] : [])];
  return new Worker(spawn(program, words, { stdio: ['pipe', 'pipe', 'inherit'], detached: true }));
}

/** A child process that is ordered and tells by lines. */
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

  /** The next thing that it tells, soon. */
  async report() {
    return soon('a report of the worker', this.next());
  }

  /** The next thing that it tells, whenever that is. */
  async next() {
    return this.#lines.shift() ?? new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Tells it to do something. */
  order(order) {
    this.#child.stdin.write(`${order}\n`);
  }

  /** Lets it come to its end. */
  async end() {
    this.#child.stdin.end();
    return soon('the end of a worker', this.process.ended);
  }
}
