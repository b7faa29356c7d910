// Generated from the tables in Rust: `LEASEHOLD_BLESS=1 cargo test -p leasehold-js` writes this file.

import { InputField, InputKind } from './codes.generated.js';
import type { InputRecord } from './input-record.js';
import type { Mode } from './types.js';

/** The calls of users that have no options. `Input` in `core/src/event.rs` says what each does. */
export abstract class Calls {
  protected abstract readonly record: InputRecord;
  protected abstract input(kind: number): void;
  protected abstract inputWithText(kind: number, text: string): void;

  release(op: number, lease: number): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.input(InputKind.release);
  }

  store(op: number, lease: number, value: string): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.inputWithText(InputKind.store, value);
  }

  forget(op: number, name: string): void {
    this.record.set(InputField.op, op);
    this.inputWithText(InputKind.forget, name);
  }

  extend(op: number, lease: number, ttl: number): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.record.set(InputField.ttl, ttl);
    this.input(InputKind.extend);
  }

  shorten(op: number, lease: number, ttl: number): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.record.set(InputField.ttl, ttl);
    this.input(InputKind.shorten);
  }

  detach(op: number, lease: number, time: number | undefined): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.record.setOptional(InputField.ttl, time);
    this.input(InputKind.detach);
  }

  convert(op: number, lease: number, mode: Mode): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.record.setFlag(InputField.shared, mode === 'shared');
    this.input(InputKind.convert);
  }

  hold(op: number, lease: number): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.input(InputKind.hold);
  }

  export(op: number, lease: number): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.input(InputKind.export);
  }

  verify(op: number, lease: number): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.lease, lease);
    this.input(InputKind.verify);
  }

  observe(op: number, name: string): void {
    this.record.set(InputField.op, op);
    this.inputWithText(InputKind.observe, name);
  }

  inspect(op: number, name: string): void {
    this.record.set(InputField.op, op);
    this.inputWithText(InputKind.inspect, name);
  }

  forceRelease(op: number, name: string, foreign: boolean): void {
    this.record.set(InputField.op, op);
    this.record.setFlag(InputField.foreign, foreign);
    this.inputWithText(InputKind.forceRelease, name);
  }

  drain(op: number, grace: number): void {
    this.record.set(InputField.op, op);
    this.record.set(InputField.ttl, grace);
    this.input(InputKind.drain);
  }

  close(op: number): void {
    this.record.set(InputField.op, op);
    this.input(InputKind.close);
  }
}
