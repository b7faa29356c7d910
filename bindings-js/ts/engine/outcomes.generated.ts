// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

import type { ReleaseOutcome } from '../support/errors.generated.js';
import type { EngineError, Grant, Inspection } from './types.js';

/** How a user's operation ended. */
export type Outcome =
  /** The caller holds the lease. If the owner of a reentrant lock already holds it, this is one more hold on the same lease, and each hold is released separately. */
  | { readonly kind: 'acquired'; readonly grant: Grant }
  /** The caller holds a lease of several names. */
  | { readonly kind: 'acquired-all'; readonly lease: number; readonly fences: readonly number[]; readonly validUntil: number }
  /** The lock is a [once](crate::Kind::Once), and this is its result. The caller gets no lease. */
  | { readonly kind: 'stored'; readonly fence: number; readonly value: string }
  /** Whether there was a result. */
  | { readonly kind: 'forgotten'; readonly found: boolean }
  /** What happened to the hold. */
  | { readonly kind: 'released'; readonly outcome: ReleaseOutcome }
  /** The lease is valid until this time. */
  | { readonly kind: 'extended'; readonly validUntil: number }
  /** The lease is in the requested mode, with a new fence. */
  | { readonly kind: 'converted'; readonly grant: Grant }
  /** The lease's token. */
  | { readonly kind: 'exported'; readonly token: string }
  /** The number of holds on the lease. */
  | { readonly kind: 'held'; readonly holds: number }
  /** Whether the server still has the lease. If not, it is reported as lost too. */
  | { readonly kind: 'verified'; readonly held: boolean }
  /** The holders and the waiters. */
  | { readonly kind: 'inspected'; readonly inspection: Inspection }
  /** How many holders lost the lock. */
  | { readonly kind: 'revoked'; readonly holders: number }
  /** No lease is held any more, or the time for that is over. */
  | { readonly kind: 'drained' }
  /** The client is closed. */
  | { readonly kind: 'closed'; readonly lost: number; readonly unreleased: number }
  | { readonly kind: 'failed'; readonly error: EngineError };

/** Reads a field of an outcome. */
export interface FieldReader {
  number(): number;
  moment(): number;
  flag(): boolean;
  text(): string;
  numbers(): readonly number[];
  grant(): Grant;
  released(): ReleaseOutcome;
  inspection(): Inspection;
  error(): EngineError;
}

/** The outcome of this kind of output. The fields follow each other in the record. */
export function readOutcome(kind: number, read: FieldReader): Outcome {
  switch (kind) {
    case 8:
      return { kind: 'acquired', grant: read.grant() };
    case 9:
      return { kind: 'acquired-all', lease: read.number(), fences: read.numbers(), validUntil: read.moment() };
    case 10:
      return { kind: 'stored', fence: read.number(), value: read.text() };
    case 11:
      return { kind: 'forgotten', found: read.flag() };
    case 12:
      return { kind: 'released', outcome: read.released() };
    case 13:
      return { kind: 'extended', validUntil: read.moment() };
    case 14:
      return { kind: 'converted', grant: read.grant() };
    case 15:
      return { kind: 'exported', token: read.text() };
    case 16:
      return { kind: 'held', holds: read.number() };
    case 17:
      return { kind: 'verified', held: read.flag() };
    case 18:
      return { kind: 'inspected', inspection: read.inspection() };
    case 19:
      return { kind: 'revoked', holders: read.number() };
    case 20:
      return { kind: 'drained' };
    case 21:
      return { kind: 'closed', lost: read.number(), unreleased: read.number() };
    default:
      return { kind: 'failed', error: read.error() };
  }
}
