import { UnsupportedError } from './errors.js';
import type { PartName, parts } from './parts.js';

declare const module: object | undefined;

/**
 * Loads a part. Throws `unsupported` in a bundle that doesn't have it. `what` is the feature that needs the part, and `entry` is
 * the import to add.
 */
export function loadPart(name: PartName, what: string, entry: string): unknown {
  const { parts: imported } = require('./parts.js') as { parts: typeof parts };
  const load = imported[name] ?? besides(name);
  const missing = (): UnsupportedError => new UnsupportedError(`${what} in a bundle without the line \`import '${entry}'\`, which puts the code for it into the bundle; add that line`);
  if (load === undefined) throw missing();
  try {
    return load();
  } catch (error) {
    // A deployment that copies only the files that it sees imported, such as Next.js standalone, doesn't have the file.
    const { code, message } = error as NodeJS.ErrnoException;
    throw code === 'MODULE_NOT_FOUND' && message.includes(`/${name}.cjs'`) ? missing() : error;
  }
}

/**
 * Loads the file beside this one. A bundler must not see this, or each bundle would have the file. In a bundle, `module` has no
 * `require`.
 */
function besides(name: PartName): (() => unknown) | undefined {
  if (typeof module !== 'object') return undefined;
  const load: unknown = Reflect.get(module, 'require');
  return typeof load === 'function' ? () => load.call(module, `./${name}.cjs`) : undefined;
}
