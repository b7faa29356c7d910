/** The option `renewIn`. */

import { InvalidOptionError, UnsupportedError } from '../support/errors.js';
import { formatValue } from '../support/format.js';

/** The option `renewIn` of a {@link LockManager}. */
export interface RenewInOptions {
  /**
   * The module that makes the worker's client: a `URL`, the text of a `file:` URL, or an absolute path. In an ES module, write
   * `new URL('./redis.js', import.meta.url)`; in CommonJS, `require.resolve('./redis.js')`.
   *
   * Its default export is a client, or a function that returns a client or a promise of one. The client must lead to the same server and
   * database as the manager's. All managers of this process that name the same module share one worker with one client.
   */
  readonly worker: string | URL;
}

/** Checks the option, and returns the module's URL. */
export function readRenewIn(given: unknown): string | undefined {
  if (given === undefined) return undefined;
  if (typeof given !== 'object' || given === null) throw new InvalidOptionError('renewIn', `is ${formatValue(given)}: give { worker }`);
  const { worker, ...others } = given as Record<string, unknown>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new InvalidOptionError('renewIn', `has no \`${unknown}\`: give { worker }`);
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  const [url, fs] = [process?.getBuiltinModule?.('node:url'), process?.getBuiltinModule?.('node:fs')];
  if (url === undefined || fs === undefined) throw new UnsupportedError(NO_THREADS);
  const href = hrefOf(worker, url.pathToFileURL, process?.getBuiltinModule?.('node:path')?.isAbsolute);
  if (href === undefined) throw new InvalidOptionError('renewIn', `has \`worker\` ${formatValue(worker)}: ${HINT}`);
  if (fs.statSync(new URL(href), { throwIfNoEntry: false })?.isFile() !== true) throw new InvalidOptionError('renewIn', `has \`worker\` ${formatValue(href)}, and there is no such file: ${HINT}`);
  return href;
}

function hrefOf(worker: unknown, toUrl: (path: string) => URL, isAbsolute: ((path: string) => boolean) | undefined): string | undefined {
  const text = worker instanceof URL ? worker.href : worker;
  if (typeof text !== 'string') return undefined;
  if (isAbsolute?.(text) === true) return toUrl(text).href;
  return text.startsWith('file:') && URL.canParse(text) ? new URL(text).href : undefined;
}

const HINT = "give new URL('./redis.js', import.meta.url), or in CommonJS require.resolve('./redis.js')";
/** Why a host can't have the option. */
export const NO_THREADS = '`renewIn` on a host without `node:worker_threads`; it needs Node 20.16, 22.3 or newer, or Bun or Deno';
