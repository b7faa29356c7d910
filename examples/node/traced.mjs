// One trace over two services: this one calls another one while it holds the lock that both need. The other service gets the
// context of the trace as `TRACEPARENT`, like the header of a request. In the place of an exporter to a collector, a line of
// JSON shows each span.
//
// `node traced.mjs path/to/traced` calls the service in Rust (`examples/native/src/bin/traced.rs`). Without a path, the other
// service is this program, too.
//
// It prints:
//   {"service":"node","name":"leasehold.acquire",.."leasehold.code":"granted",..}
//   ..
//   {"service":"node","name":"order",..}
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { BasicTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { Redis } from 'ioredis';
import { LockManager } from 'leasehold';
import { instrument } from 'leasehold/opentelemetry';

const lines = {
  export(spans, done) {
    for (const span of spans) {
      const { traceId, spanId } = span.spanContext();
      const links = span.links.map((link) => link.context.spanId);
      const { name, attributes, parentSpanContext } = span;
      console.log(JSON.stringify({ service: 'node', name, trace: traceId, span: spanId, parent: parentSpanContext?.spanId, links, attributes }));
    }
    done({ code: 0 });
  },
  shutdown: async () => {},
};
// An SDK for Node, such as @opentelemetry/sdk-node, sets these by itself.
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(lines)] }));
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1');
const locks = new LockManager(redis);
instrument(locks);

const { TRACEPARENT: traceparent } = process.env;
const request = propagation.extract(context.active(), { traceparent });
await trace.getTracer('example').startActiveSpan(traceparent ? 'bill' : 'order', {}, request, async (span) => {
  const lease = await locks.mutex('example:traced').acquire();
  const ended = traceparent ? undefined : call();
  // The other service waits for the lock.
  while (ended && (await locks.inspect('example:traced')).waiters.length === 0) await setTimeout(10);
  await lease.release();
  await ended;
  span.end();
});

await locks.close();
redis.disconnect();

/** Calls the other service. Returns a promise of its end. */
function call() {
  const headers = {};
  propagation.inject(context.active(), headers);
  const [, self, service] = process.argv;
  const [program, words] = service ? [service, []] : [process.execPath, [self]];
  const child = spawn(program, words, { stdio: 'inherit', env: { ...process.env, TRACEPARENT: headers.traceparent } });
  return once(child, 'exit');
}
