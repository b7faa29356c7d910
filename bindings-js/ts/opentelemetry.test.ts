/** Spans and metrics of a manager's locks, with OpenTelemetry's own SDK. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';

import { type LockManager, Owner } from './index.js';
import { instrument } from './opentelemetry.js';
import { caught, until } from './testing/expect.js';
import { Fleet, unique } from './testing/fleet.js';

const fleet = await Fleet.start();
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
after(() => context.disable());

/** One number or histogram of a metric. */
interface Point {
  readonly labels: string;
  readonly value: unknown;
}

/** A manager that writes to exporters of its own. */
class Instrumented {
  readonly locks: LockManager;
  readonly stop: () => void;
  readonly tracerProvider: BasicTracerProvider;
  readonly #spans = new InMemorySpanExporter();
  readonly #metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  readonly #meterProvider: MeterProvider;

  constructor(t: TestContext, locks = fleet.manager()) {
    const reader = new PeriodicExportingMetricReader({ exporter: this.#metrics, exportIntervalMillis: 3_600_000 });
    this.tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(this.#spans)] });
    this.#meterProvider = new MeterProvider({ readers: [reader] });
    this.locks = locks;
    this.stop = instrument(locks, { tracerProvider: this.tracerProvider, meterProvider: this.#meterProvider });
    t.after(async () => Promise.all([this.tracerProvider.shutdown(), this.#meterProvider.shutdown()]));
  }

  /** The spans that have ended. */
  spans(name: string): ReadableSpan[] {
    return this.#spans.getFinishedSpans().filter((span) => span.name === name);
  }

  async metrics(): Promise<Map<string, { unit: string; points: Point[] }>> {
    this.#metrics.reset();
    await this.#meterProvider.forceFlush();
    const all = this.#metrics.getMetrics().at(-1)?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? [];
    return new Map(all.map(({ descriptor, dataPoints }) => {
      const points = dataPoints.map(({ attributes, value }) => ({ labels: Object.entries(attributes).map(String).join(' '), value }));
      return [descriptor.name, { unit: descriptor.unit, points }];
    }));
  }

  /**
   * The value of a metric for each combination of labels, without the series that are still 0. The value of a histogram is the number
   * of its recorded times.
   */
  async counted(name: string): Promise<Record<string, number>> {
    const points = (await this.metrics()).get(name)?.points ?? [];
    const counts = points.map(({ labels, value }) => [labels, typeof value === 'number' ? value : (value as { count: number }).count] as const);
    return Object.fromEntries(counts.filter(([labels, count]) => labels === '' || count !== 0));
  }
}

test('an_acquire_and_a_hold_are_spans_of_the_trace_that_asked_for_the_lock', async (t) => {
  const { locks, spans, tracerProvider } = bound(new Instrumented(t));
  const [name, began] = [unique(), performance.now()];
  const request = tracerProvider.getTracer('service').startSpan('request');
  const fence = await context.with(trace.setSpan(context.active(), request), () => locks.mutex(name).run(async (lease) => {
    await sleep(20);
    return lease.fence;
  }));
  request.end();
  const [[acquire, ...more], [hold, ...others]] = [spans('leasehold.acquire'), spans('leasehold.hold')];
  assert.ok(acquire !== undefined && hold !== undefined && more.length === 0 && others.length === 0);
  for (const span of [acquire, hold]) {
    assert.equal(span.spanContext().traceId, request.spanContext().traceId);
    assert.equal(span.parentSpanContext?.spanId, request.spanContext().spanId);
    assert.equal(span.status.code, SpanStatusCode.UNSET);
  }
  assert.equal(hold.links[0]?.context.spanId, acquire.spanContext().spanId);
  const waited = acquire.attributes['leasehold.waited_ms'] as number;
  const held = hold.attributes['leasehold.held_ms'] as number;
  const took = performance.now() - began;
  assert.ok(waited > 0 && held >= 15 && waited + held <= took, `${waited} + ${held} of ${took}`);
  const lock = { 'leasehold.lock.name': name, 'leasehold.mode': 'exclusive', 'leasehold.fence': fence };
  assert.deepEqual(acquire.attributes, { ...lock, 'leasehold.code': 'granted', 'leasehold.waited_ms': waited, 'leasehold.local': false });
  assert.deepEqual(hold.attributes, { ...lock, 'leasehold.code': 'released', 'leasehold.held_ms': held });
  assert.ok(milliseconds(hold.duration) >= 15);
});

test('spans_made_inside_run_are_children_of_the_leases_span', async (t) => {
  const all = new Instrumented(t);
  const { locks, spans, tracerProvider } = bound(all);
  const tracer = tracerProvider.getTracer('service');
  const write = async (name: string): Promise<void> => {
    await fleet.redis.ping();
    await tracer.startActiveSpan(name, async (span) => {
      await fleet.redis.ping();
      span.end();
    });
  };
  const request = tracer.startSpan('request');
  const stopping = new AbortController();
  await context.with(trace.setSpan(context.active(), request), async () => {
    await Promise.all([1, 2].map((at) => locks.mutex(unique()).run(() => write(`write ${at}`))));
    await locks.readWrite(unique()).read().run(() => write('read'));
    await locks.multi([unique(), unique()]).run(() => write('both'));
    await locks.once(unique(), () => write('once'), { keep: '1m' });
    await locks.request(unique(), () => write('request of a lock'));
    await locks.election(unique()).lead(async () => {
      await write('lead');
      stopping.abort();
    }, { signal: stopping.signal }).catch(() => {});
    await write('after');
  });
  const holds = spans('leasehold.hold');
  const parents = ['write 1', 'write 2', 'read', 'both', 'once', 'request of a lock', 'lead'].map((name) => {
    const [span, ...more] = spans(name);
    assert.ok(span !== undefined && more.length === 0 && span.spanContext().traceId === request.spanContext().traceId, name);
    const parent = holds.findIndex((hold) => hold.spanContext().spanId === span.parentSpanContext?.spanId);
    assert.ok(parent >= 0, `${name} is in a hold`);
    return parent;
  });
  assert.equal(new Set(parents).size, parents.length, 'each in its own');
  assert.ok(holds.every(({ parentSpanContext }) => parentSpanContext?.spanId === request.spanContext().spanId));
  assert.equal(spans('after')[0]?.parentSpanContext?.spanId, request.spanContext().spanId);

  all.stop();
  await context.with(trace.setSpan(context.active(), request), () => locks.mutex(unique()).run(() => write('late')));
  assert.equal(spans('late')[0]?.parentSpanContext?.spanId, request.spanContext().spanId);
});

test('calls_at_the_same_time_stay_in_their_own_traces', async (t) => {
  const { locks, spans, tracerProvider } = bound(new Instrumented(t));
  const name = unique();
  const roots = await Promise.all([1, 2, 3].map(async () => {
    const root = tracerProvider.getTracer('service').startSpan('request');
    await context.with(trace.setSpan(context.active(), root), () => locks.mutex(name).run(() => fleet.redis.ping()));
    return root.spanContext().spanId;
  }));
  const parentsOf = (kind: string): unknown[] => spans(kind).map(({ parentSpanContext }) => parentSpanContext?.spanId);
  assert.deepEqual(parentsOf('leasehold.acquire').sort(), [...roots].sort());
  assert.deepEqual(parentsOf('leasehold.hold').sort(), [...roots].sort());
  assert.deepEqual(spans('leasehold.acquire').map(({ attributes }) => attributes['leasehold.local']), [false, true, true]);
});

test('an_acquire_that_fails_is_an_error_unless_the_lock_was_only_busy', async (t) => {
  const { locks, spans } = bound(new Instrumented(t));
  const name = unique();
  const lease = await fleet.manager().mutex(name).acquire();
  assert.equal(await locks.mutex(name).tryAcquire(), null);
  await fleet.redis.lpush('no lock', 'x');
  await caught(locks.mutex('no lock').acquire());
  await lease.release();
  const [busy, wrong] = spans('leasehold.acquire');
  assert.deepEqual([busy?.attributes['leasehold.code'], busy?.status.code], ['busy', SpanStatusCode.UNSET]);
  assert.deepEqual([wrong?.attributes['leasehold.code'], wrong?.status.code], ['wrong-kind', SpanStatusCode.ERROR]);
  assert.match(wrong?.status.message ?? '', /lock `no lock`: the key holds another kind of lock/);
  assert.equal(spans('leasehold.hold').length, 0);
});

test('the_span_of_a_lost_lease_ends_at_the_loss_with_its_reason', async (t) => {
  const all = new Instrumented(t);
  const { locks, spans } = bound(all);
  const lease = await locks.mutex(unique()).acquire();
  await fleet.redis.del(lease.name);
  void lease.verify();
  assert.equal(await lease.lost, 'gone');
  await until(async () => spans('leasehold.hold').length === 1);
  const [hold] = spans('leasehold.hold');
  assert.deepEqual([hold?.attributes['leasehold.code'], hold?.attributes['leasehold.reason']], ['lost', 'gone']);
  assert.equal(hold?.status.code, SpanStatusCode.ERROR);
  assert.equal(await lease.release(), 'already-expired');
  assert.deepEqual(await all.counted('leasehold.losses'), { 'reason,gone': 1 });
  assert.deepEqual(await all.counted('leasehold.held'), { '': 0 });
  assert.deepEqual(await all.counted('leasehold.hold'), { 'code,lost': 1 });
});

test('the_metrics_have_names_of_opentelemetry_the_labels_of_the_rust_crate_and_no_lock_names', async (t) => {
  const all = new Instrumented(t);
  const { locks } = all;
  const [name, began] = [unique(), performance.now()];
  const lease = await locks.mutex(name).acquire();
  const waiting = locks.mutex(name).acquire();
  assert.deepEqual(await all.counted('leasehold.waiting'), { '': 1 });
  assert.deepEqual(await all.counted('leasehold.held'), { '': 1 });
  assert.equal(await locks.mutex(name).tryAcquire(), null);
  await sleep(30);
  await lease.release();
  await (await waiting).release();
  await locks.readWrite(unique()).read().run(() => {});

  const took = (performance.now() - began) / 1_000;
  const metrics = await all.metrics();
  assert.deepEqual([...metrics.keys()].sort(), [
    'leasehold.acquires', 'leasehold.held', 'leasehold.hold', 'leasehold.losses', 'leasehold.reconnects', 'leasehold.wait', 'leasehold.waiting',
  ]);
  assert.deepEqual(await all.counted('leasehold.acquires'), {
    'code,granted mode,exclusive local,false': 1, 'code,granted mode,exclusive local,true': 1,
    'code,busy mode,exclusive local,false': 1, 'code,granted mode,shared local,false': 1,
  });
  assert.deepEqual(await all.counted('leasehold.wait'), { 'code,granted mode,exclusive': 2, 'code,busy mode,exclusive': 1, 'code,granted mode,shared': 1 });
  assert.deepEqual(await all.counted('leasehold.hold'), { 'code,released': 3 });
  assert.deepEqual(await all.counted('leasehold.waiting'), { '': 0 });
  assert.deepEqual(await all.counted('leasehold.held'), { '': 0 });
  const wait = metrics.get('leasehold.wait');
  const { max } = wait?.points.find(({ labels }) => labels === 'code,granted mode,exclusive')?.value as { max: number };
  assert.ok(wait?.unit === 's' && max >= 0.025 && max <= took, `${wait?.unit} ${max} of ${took}`);
});

test('every_series_of_a_counter_is_at_0_from_the_start_so_that_its_first_event_is_an_increase', async (t) => {
  const page = (name: string): string[] => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8').split('\n');
  const words = (line = ''): string[] => line.split('`').filter((_, at) => at % 2 === 1);
  const values = (label: string): string[] => words(page('metrics').find((line) => line.startsWith(`| \`${label}\` | `))).slice(1);
  // A conversion has the code `conflict`, and an acquire never has it.
  const codes = page('errors').filter((line) => line.startsWith('| `')).flatMap((line) => words(line).slice(0, 1)).filter((code) => code !== 'conflict');
  const [modes, reasons] = [values('mode'), values('reason')];
  assert.deepEqual([codes.length, modes.length, reasons.length], [14, 7, 6]);
  const granted = modes.flatMap((mode) => [true, false].map((local) => `code,granted mode,${mode} local,${local}`));
  const refused = modes.flatMap((mode) => codes.map((code) => `code,${code} mode,${mode} local,false`));
  const expected = {
    'leasehold.acquires': [...granted, ...refused, 'code,stored mode,once local,false'].sort(), 'leasehold.losses': reasons.map((reason) => `reason,${reason}`).sort(),
    'leasehold.reconnects': [''], 'leasehold.held': [''], 'leasehold.waiting': [''],
  };
  const begun = [...await new Instrumented(t).metrics()].map(([name, { points }]) => {
    assert.ok(points.every(({ value }) => value === 0), name);
    return [name, points.map(({ labels }) => labels).sort()];
  });
  assert.deepEqual(Object.fromEntries(begun), expected);
});

test('a_nested_hold_and_an_owner_that_comes_again_belong_to_one_hold', async (t) => {
  const all = new Instrumented(t);
  const lease = await all.locks.mutex(unique()).acquire();
  const nested = lease.nested();
  const lock = all.locks.reentrant(unique(), new Owner());
  const [first, again] = [await lock.acquire(), await lock.acquire()];
  assert.deepEqual(await all.counted('leasehold.held'), { '': 2 });
  for (const hold of [nested, lease, again, first]) await hold.release();
  assert.equal(all.spans('leasehold.hold').length, 2);
  assert.equal(all.spans('leasehold.acquire').length, 3);
  assert.deepEqual(await all.counted('leasehold.held'), { '': 0 });
  assert.deepEqual(await all.counted('leasehold.hold'), { 'code,released': 2 });
});

test('a_reconnect_is_counted', async (t) => {
  const own = await Fleet.start((end) => t.after(end));
  const all = new Instrumented(t, own.manager());
  await all.locks.mutex(unique()).run(() => {});
  await own.server.restart();
  await until(async () => (await all.counted('leasehold.reconnects'))[''] === 1);
});

test('stopping_ends_the_open_spans_and_leaves_no_listener', async (t) => {
  const all = new Instrumented(t);
  const lease = await all.locks.mutex(unique()).acquire();
  const waiting = all.locks.mutex(lease.name).acquire();
  all.stop();
  assert.deepEqual([all.spans('leasehold.hold').length, all.spans('leasehold.acquire').length], [1, 2]);
  assert.deepEqual([await all.counted('leasehold.held'), await all.counted('leasehold.waiting')], [{ '': 0 }, { '': 0 }]);
  await lease.release();
  await (await waiting).release();
  await all.locks.mutex(unique()).run(() => {});
  assert.equal(all.spans('leasehold.acquire').length, 2);
});

test('a_manager_that_is_instrumented_late_counts_what_comes_after', async (t) => {
  const [locks, name] = [fleet.manager(), unique()];
  const lease = await locks.mutex(name).acquire();
  const waiting = locks.mutex(name).acquire();
  const all = new Instrumented(t, locks);
  await lease.release();
  await (await waiting).release();
  await locks.mutex(name).run(() => {});
  assert.deepEqual(await all.counted('leasehold.acquires'), { 'code,granted mode,exclusive local,true': 1, 'code,granted mode,exclusive local,false': 1 });
  assert.deepEqual([await all.counted('leasehold.held'), await all.counted('leasehold.waiting')], [{ '': 0 }, { '': 0 }]);
  assert.equal(all.spans('leasehold.hold').length, 1);
});

test('without_providers_the_global_ones_get_everything', async (t) => {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
  t.after(() => trace.disable());
  const locks = fleet.manager();
  const stop = instrument(locks);
  await locks.mutex(unique()).run(() => {});
  stop();
  assert.deepEqual(exporter.getFinishedSpans().map(({ name }) => name), ['leasehold.acquire', 'leasehold.hold']);
});

/** Methods that a test can take apart. */
function bound(all: Instrumented): Pick<Instrumented, 'locks' | 'spans' | 'tracerProvider'> {
  return { locks: all.locks, tracerProvider: all.tracerProvider, spans: (name) => all.spans(name) };
}

function milliseconds([seconds, nanos]: readonly [number, number]): number {
  return seconds * 1_000 + nanos / 1_000_000;
}
