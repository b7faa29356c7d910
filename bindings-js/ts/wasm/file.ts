/** The WebAssembly in a file beside the code, where that is `dist/<code>` at this path and files can be read. */
export function fileBeside(path: string, code: string, wasm: string): Uint8Array | undefined {
  const { process, Deno } = globalThis as { process?: Partial<NodeJS.Process>; Deno?: unknown };
  // A bundle bears another name, and what lies beside it may be anybody's. Deno would ask the user whether we may read.
  const [, directory, name] = /^((?:\/|[A-Za-z]:|\\\\).*[\\/]dist[\\/])([^\\/]+)$/s.exec(path) ?? [];
  if (directory === undefined || name !== code || Deno !== undefined) return undefined;
  try {
    return process?.getBuiltinModule?.('node:fs')?.readFileSync(directory + wasm);
  } catch {
    return undefined;
  }
}
