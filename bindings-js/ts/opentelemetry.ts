/** Traces and metrics of a manager's locks, for OpenTelemetry. */

import {
  type Attributes, type Context, context, type MeterProvider, metrics, type Span, SpanStatusCode, trace, type TracerProvider,
} from '@opentelemetry/api';
import { type Entering, enteringSymbol } from './support/entering.js';
import { ERROR_CODES, LOSS_REASONS } from './support/errors.generated.js';
import type { AcquireEvent, AcquiringEvent, LockManager, LockManagerEvents, LostEvent, ReleaseEvent } from './index.js';

/** The options of {@link instrument}. */
export interface InstrumentOptions {
  /** Where the spans go. By default to the global tracer provider. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Where the metrics go. By default to the global meter provider. */
  readonly meterProvider?: MeterProvider | undefined;
}

/**
 * Writes spans and metrics about the locks of a manager, and returns a function that stops it.
 *
 * A span `leasehold.acquire` is the wait for a lock, and a span `leasehold.hold` the time that a lease is held. Both are children
 * of the span that was active where the lock was asked for. In the work of `run`, `once`, `lead` and `request`, `leasehold.hold` is the
 * active span, so spans made there are its children. In Prometheus, the metrics have the names of the Rust crate's. No metric has a
 * lock's name, because each name would be a time series of its own.
 *
 * Instrument a manager before its first acquire. Stopping ends all open spans.
 *
 * @example
 * ```ts
 * import { instrument } from 'leasehold/opentelemetry';
 *
 * const stop = instrument(locks);
 * ```
 */
export function instrument(manager: LockManager, options: InstrumentOptions = {}): () => void {
  const listeners = new Recorder(options);
  const names = ['acquiring', 'acquire', 'release', 'lost', 'reconnect'] as const satisfies readonly (keyof LockManagerEvents)[];
  for (const name of names) manager.on(name, listeners[name] as (event: unknown) => void);
  const leave = manager[enteringSymbol](listeners.enter);
  return () => {
    leave();
    for (const name of names) manager.off(name, listeners[name] as (event: unknown) => void);
    listeners.stop();
  };
}

/** An acquire that has not ended. */
interface Wait {
  readonly span: Span;
  /** The caller's context. */
  readonly caller: Context;
}

/** Upper bounds for times, in seconds: hand-overs take microseconds, waits up to minutes. */
const SECONDS = { unit: 's', advice: { explicitBucketBoundaries: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60] } };

/** Every kind of lock. */
const MODES = {
  exclusive: true, shared: true, reentrant: true, semaphore: true, once: true, election: true, multi: true,
} satisfies Record<AcquireEvent['mode'], true>;

/** How an acquire can end without a lease. Only a conversion ends with `conflict`. */
const REFUSALS = ERROR_CODES.filter((code) => code !== 'conflict');

class Recorder {
  readonly #waits = new Map<number, Wait>();
  /** The spans of the leases that are held. */
  readonly #holds = new Map<number, Span>();
  readonly #tracer;
  readonly #meters;

  constructor({ tracerProvider, meterProvider }: InstrumentOptions) {
    this.#tracer = (tracerProvider ?? trace.getTracerProvider()).getTracer('leasehold');
    const meter = (meterProvider ?? metrics.getMeterProvider()).getMeter('leasehold');
    this.#meters = {
      acquires: meter.createCounter('leasehold.acquires', { unit: '{acquire}', description: 'Acquires that have ended, by their outcome' }),
      losses: meter.createCounter('leasehold.losses', { unit: '{lease}', description: 'Leases that were lost, by the reason' }),
      reconnects: meter.createCounter('leasehold.reconnects', { unit: '{connection}', description: 'Connections for commands that were made again after a break' }),
      wait: meter.createHistogram('leasehold.wait', { ...SECONDS, description: 'How long an acquire took, by its outcome' }),
      hold: meter.createHistogram('leasehold.hold', { ...SECONDS, description: 'How long a lease was held, by how it ended' }),
      held: meter.createUpDownCounter('leasehold.held', { unit: '{lease}', description: 'Leases that the program has now' }),
      waiting: meter.createUpDownCounter('leasehold.waiting', { unit: '{acquire}', description: 'Acquires that have not ended yet' }),
    };
    this.#begin();
  }

  /**
   * Starts the series. Prometheus doesn't count the first value of a series as an increase. Without a 0 before it, an alert would miss
   * the first loss. A histogram can't start without a recorded time.
   */
  #begin(): void {
    const { acquires, losses, reconnects, held, waiting } = this.#meters;
    for (const mode of Object.keys(MODES)) {
      for (const local of [true, false]) acquires.add(0, { code: 'granted', mode, local });
      if (mode === 'once') acquires.add(0, { code: 'stored', mode, local: false });
      for (const code of REFUSALS) acquires.add(0, { code, mode, local: false });
    }
    for (const reason of LOSS_REASONS) losses.add(0, { reason });
    for (const meter of [reconnects, held, waiting]) meter.add(0);
  }

  readonly acquiring = ({ id, name, mode }: AcquiringEvent): void => {
    const caller = context.active();
    const attributes = { 'leasehold.lock.name': name, 'leasehold.mode': mode };
    this.#waits.set(id, { caller, span: this.#tracer.startSpan('leasehold.acquire', { attributes }, caller) });
    this.#meters.waiting.add(1);
  };

  readonly acquire = (event: AcquireEvent): void => {
    const { id, mode, code, waited } = event;
    const { acquires, wait, waiting } = this.#meters;
    acquires.add(1, { code, mode, local: code === 'granted' && event.local });
    wait.record(waited / 1_000, { code, mode });
    const begun = this.#waits.get(id);
    // It began before this manager was instrumented.
    if (begun === undefined) return;
    this.#waits.delete(id);
    waiting.add(-1);
    const { span, caller } = begun;
    span.setAttributes({ 'leasehold.code': code, 'leasehold.waited_ms': waited });
    if (code === 'granted') {
      const { fence, local } = event;
      span.setAttributes({ 'leasehold.fence': fence, 'leasehold.local': local });
      this.#hold(event, span, caller);
    } else if (code !== 'stored' && code !== 'busy' && code !== 'cancelled') {
      span.setStatus({ code: SpanStatusCode.ERROR, message: String(event.error) });
    }
    span.end();
  };

  readonly release = (event: ReleaseEvent): void => {
    if (event.code === 'closed') this.#meters.losses.add(1, { reason: 'closed' });
    if (event.code !== 'still-held') this.#endHold(event, event.code);
  };

  readonly lost = (event: LostEvent): void => {
    const { reason } = event;
    this.#meters.losses.add(1, { reason });
    this.#holds.get(event.lease)?.setStatus({ code: SpanStatusCode.ERROR, message: `the lease was lost: ${reason}` });
    this.#endHold(event, 'lost', { 'leasehold.reason': reason });
  };

  /** The span of a lease is active in its work. */
  readonly enter: Entering = (lease, work) => {
    const span = this.#holds.get(lease);
    return span === undefined ? work() : context.with(trace.setSpan(context.active(), span), work);
  };

  readonly reconnect = (): void => this.#meters.reconnects.add(1);

  /** Ends all open spans. What they count is not there any more. */
  stop(): void {
    const { held, waiting } = this.#meters;
    if (this.#waits.size > 0) waiting.add(-this.#waits.size);
    if (this.#holds.size > 0) held.add(-this.#holds.size);
    for (const { span } of this.#waits.values()) span.end();
    for (const span of this.#holds.values()) span.end();
    this.#waits.clear();
    this.#holds.clear();
  }

  #hold({ lease, name, mode, fence }: Extract<AcquireEvent, { code: 'granted' }>, acquire: Span, caller: Context): void {
    // The owner of a reentrant lock has its lease again.
    if (this.#holds.has(lease)) return;
    const attributes = { 'leasehold.lock.name': name, 'leasehold.mode': mode, 'leasehold.fence': fence };
    // No child of the acquire's span, which would then be shorter than its child.
    const links = [{ context: acquire.spanContext() }];
    this.#holds.set(lease, this.#tracer.startSpan('leasehold.hold', { attributes, links }, caller));
    this.#meters.held.add(1);
  }

  #endHold({ lease, fence, held }: ReleaseEvent | LostEvent, code: string, more: Attributes = {}): void {
    const span = this.#holds.get(lease);
    if (span === undefined) return;
    this.#holds.delete(lease);
    this.#meters.held.add(-1);
    this.#meters.hold.record(held / 1_000, { code });
    // `upgrade` and `downgrade` change the fence.
    span.setAttributes({ ...more, 'leasehold.code': code, 'leasehold.fence': fence, 'leasehold.held_ms': held });
    span.end();
  }
}
