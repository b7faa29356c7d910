/** The program of the worker. It is one file without imports once it is built, because a bundle of the user's program has no files beside it. */

import { recognise } from '../connections/index.js';
import type { Link } from '../connections/index.js';
import type { FromWorker, ToWorker } from './messages.js';
import { Renewals } from './renewals.js';

const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads');
const tell = (message: FromWorker): void => parentPort?.postMessage(message);

const link = open((workerData as { module: string }).module);
link.then(() => tell({ kind: 'ready' }), unusable);

let timer: NodeJS.Timeout | undefined;
const never = new Promise<Link>(() => {});
const renewals = new Renewals(async (words) => (await link.catch(() => never)).call(words), tell, {
  now: () => performance.now(),
  wakeIn: (ms, run) => {
    clearTimeout(timer);
    timer = setTimeout(run, ms);
  },
});
parentPort?.on('message', (message: ToWorker) => renewals.handle(message));

/** Imports the module, and makes the adapter for the client that it exports. */
async function open(module: string): Promise<Link> {
  const { default: exported } = (await import(module)) as { default?: unknown };
  // Compilers to CommonJS put the default export into an object.
  const made = isCompiled(exported) ? exported.default : exported;
  if (made === undefined) throw new TypeError('it has no default export: export the client, or a function that returns it');
  return recognise(typeof made === 'function' ? await (made as () => unknown)() : await made);
}

function unusable(error: unknown): void {
  try {
    tell({ kind: 'unusable', error: error instanceof Error ? error : String(error) });
  } catch {
    // It has something that can't be sent to another thread.
    tell({ kind: 'unusable', error: String(error) });
  }
}

function isCompiled(exported: unknown): exported is { default: unknown } {
  return typeof exported === 'object' && exported !== null && '__esModule' in exported && 'default' in exported;
}
