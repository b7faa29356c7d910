/** The server's half of the protocol, in a WebAssembly module of its own: for `memory` and `transactions`. */

export { type Message, readAnswer, readCommands, writeReplies } from './resp.js';
export { Memory, ScriptCall } from './wasm/inline.js';
