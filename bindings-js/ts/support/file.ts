/** Reads the WebAssembly file beside the code, if `path` is `dist/<code>` and the host can read files. */
export function fileBeside(path: string, code: string, wasm: string): Uint8Array | undefined {
  const { process, Deno } = globalThis as { process?: Partial<NodeJS.Process>; Deno?: unknown };
  // A bundle has another name, and the files beside it may belong to anything. Deno would ask the user for permission to read.
  const [, directory, name] = /^((?:\/|[A-Za-z]:|\\\\).*[\\/]dist[\\/])([^\\/]+)$/s.exec(path) ?? [];
  if (directory === undefined || name !== code || Deno !== undefined) return undefined;
  try {
    return process?.getBuiltinModule?.('node:fs')?.readFileSync(directory + wasm);
  } catch {
    return undefined;
  }
}
