/** The engine, which decides everything: a WebAssembly module, its inputs, and the reader of its outputs. */

export type { Command } from './command.js';
export { camelCase, Engine, engineOf, type Wasm } from './engine.js';
export {
  type Config, type EngineError, type Grant, type Holder, type Inspection, type Kind, LOCK, type Mode, type Outcome, type Outputs,
  type ReleaseOutcome, type Waiter, type Wish,
} from './types.js';
