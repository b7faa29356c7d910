// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

import { InputField } from './codes.generated.js';
import type { InputRecord } from './input-record.js';

/** The kinds of locks that the engine has, each with what only it has. `Kind` in `core/src/options.rs` says what each is. */
export type EngineKind =
  | { readonly type: 'lock' }
  | { readonly type: 'reentrant'; readonly owner: number }
  | { readonly type: 'semaphore'; readonly permits: number; readonly limit: number; readonly per?: number | undefined }
  | { readonly type: 'once'; readonly keep: number }
  | { readonly type: 'election'; readonly value: string };

/** Writes the kind of a lock, which is a mutex or a read-write lock if nothing is written. */
export function writeKind(record: InputRecord, kind: EngineKind): void {
  switch (kind.type) {
    case 'lock':
      return;
    case 'reentrant':
      record.set(InputField.kind, 1);
      record.set(InputField.owner, kind.owner);
      return;
    case 'semaphore':
      record.set(InputField.kind, 2);
      record.set(InputField.permits, kind.permits);
      record.set(InputField.limit, kind.limit);
      record.setOptional(InputField.per, kind.per);
      return;
    case 'once':
      record.set(InputField.kind, 3);
      record.set(InputField.keep, kind.keep);
      return;
    case 'election':
      record.set(InputField.kind, 4);
      return;
  }
}
