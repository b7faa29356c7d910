//! One trace over several services: `TRACEPARENT` is the caller's context, as in the header of a request. In the place of an
//! exporter to a collector, a line of JSON shows each span.
//!
//! `cargo run -p leasehold-examples --bin traced`, with `REDIS_URL` or a server on 127.0.0.1:6379. `examples/node/traced.mjs`
//! calls it while it holds the lock. It prints:
//!
//! ```text
//! {"service":"rust","name":"leasehold.acquire","trace":"..","span":"..","parent":"..",.."leasehold.code":"granted",..}
//! {"service":"rust","name":"leasehold.hold","trace":"..",.."leasehold.code":"released",..}
//! {"service":"rust","name":"bill","trace":"..",..}
//! ```

use std::collections::HashMap;
use std::future::{Future, ready};

use leasehold::LockManager;
use opentelemetry::Value;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use serde_json::json;
use tracing::{Instrument as _, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = SdkTracerProvider::builder().with_simple_exporter(Lines).build();
    let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer("example"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(traces))?;

    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;

    let request = info_span!("bill");
    let headers = HashMap::from([("traceparent".to_owned(), std::env::var("TRACEPARENT").unwrap_or_default())]);
    request.set_parent(TraceContextPropagator::new().extract(&headers))?;
    bill(&locks).instrument(request).await?;

    locks.close().await;
    provider.shutdown()?;
    Ok(())
}

/// The spans of the wait and of the hold are children of the request's span. There is nothing else to do.
async fn bill(locks: &LockManager) -> Result<(), leasehold::Error> {
    let lease = locks.mutex("example:traced").acquire().await?;
    lease.release().await?;
    Ok(())
}

#[derive(Debug)]
struct Lines;

impl SpanExporter for Lines {
    fn export(&self, spans: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        for span in spans {
            let ours = span.attributes.iter().filter(|attribute| attribute.key.as_str().starts_with("leasehold."));
            let attributes = ours.map(|attribute| {
                let value = match &attribute.value {
                    Value::I64(number) => json!(number),
                    Value::F64(number) => json!(number),
                    Value::Bool(flag) => json!(flag),
                    other => json!(other.as_str()),
                };
                (attribute.key.to_string(), value)
            });
            let attributes: serde_json::Map<_, _> = attributes.collect();
            let links: Vec<_> = span.links.iter().map(|link| link.span_context.span_id().to_string()).collect();
            println!(
                r#"{{"service":"rust","name":{},"trace":"{}","span":"{}","parent":"{}","links":{},"attributes":{}}}"#,
                json!(span.name),
                span.span_context.trace_id(),
                span.span_context.span_id(),
                span.parent_span_id,
                json!(links),
                json!(attributes),
            );
        }
        ready(Ok(()))
    }
}
