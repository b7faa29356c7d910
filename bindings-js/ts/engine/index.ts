/** The engine, which decides everything: a WebAssembly module, its inputs, and the reader of its outputs. */

export type { Command } from './command.js';
export { camelCase, Engine, type EngineModule, quorumEngine } from './engine.js';
export type { Outcome } from './outcomes.generated.js';
export type { Outputs } from './output-reader.js';
export {
  type AcquireSettings, type Config, type EngineError, type EngineLeader, type Grant, type Holder, type Inspection, type LockKind,
  type LockNameAndMode, type LockSpec, type Mode, nameOnServer, PLAIN, type ReleaseOutcome, type Renewal, type ReplicaSettings, type Waiter,
} from './types.js';
