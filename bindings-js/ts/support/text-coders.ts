/**
 * The coders of UTF-8. The build puts them in place of the globals, because a host such as Jest's jsdom has Node's `process` but not
 * these globals.
 */

const { process } = globalThis as { process?: Partial<NodeJS.Process> };
const util = globalThis.TextEncoder === undefined ? process?.getBuiltinModule?.('node:util') : undefined;

const Encoder = util?.TextEncoder ?? globalThis.TextEncoder;
const Decoder = util?.TextDecoder ?? globalThis.TextDecoder;

export { Decoder as TextDecoder, Encoder as TextEncoder };
