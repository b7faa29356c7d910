/** The engine, which decides everything: a WebAssembly module, its inputs, and the reader of its outputs. */

export type { Command } from './command.js';
export { camelCase, Engine, type EngineModule, quorumEngine } from './engine.js';
export {
  type AcquireSettings, type Config, type EngineError, type Grant, type Holder, type Inspection, type LockKind, type LockNameAndMode, type LockSpec,
  type Mode, nameOnServer, type Outcome, type Outputs, PLAIN, type ReleaseOutcome, type ReplicaSettings, type Waiter,
} from './types.js';
